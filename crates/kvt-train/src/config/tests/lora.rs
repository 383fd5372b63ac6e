//! `[lora]`.

use super::*;
use crate::task::LoraConfig;

#[test]
fn the_factor_follows_the_rank_and_nothing_is_left_without_one() {
    let lora = |overrides: &[&str]| plan_of(SMALL, overrides).unwrap().lora;
    assert_eq!(lora(&["lora.rank=4"]).alpha, 8.0);
    assert_eq!(lora(&["lora.rank=4", "lora.alpha=3"]).alpha, 3.0);
    let off = ["lora.alpha=3", "lora.layers=[\"mlp\"]", "lora.rank=0"];
    assert_eq!(lora(&off), LoraConfig::default());
    assert_eq!(lora(&[]).rank, 0);
    // Kept by the file in a run's folder.
    let plan = plan_of(SMALL, &["lora.rank=4", "lora.layers=[\"mlp\"]"]).unwrap();
    assert_eq!(plan_of(&resolved_toml(&plan).unwrap(), &[]).unwrap(), plan);
}

#[test]
fn what_has_no_factors_refuses_them() {
    for (overrides, expected) in [
        (
            &["init.freeze=backbone"][..],
            "`lora.rank` adapts the backbone, which `init.freeze` leaves as it is",
        ),
        (
            &["lora.layers=[]"],
            "invalid value `[]` for `lora.layers`: expected a non-empty list of (string)",
        ),
        (&["lora.alpha=0"], "`lora.alpha`"),
        (
            &["task=dino"],
            "`task = \"dino\"` trains the backbone itself",
        ),
        (
            &["task=segment"],
            "`task = \"segment\"` trains the whole network",
        ),
    ] {
        let error = error_of(SMALL, &[&["lora.rank=4"], overrides].concat());
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn what_is_set_without_a_rank_is_refused() {
    for key in ["lora.layers=[\"mlp\"]", "lora.alpha=3"] {
        let error = error_of(SMALL, &[key]);
        let (name, _) = key.split_once('=').unwrap();
        let expected = format!("`{name}` is set, but `lora.rank` is not");
        assert!(error.contains(&expected), "{error}");
        // A command line may have no file, and `kvt finetune` has an option of its own.
        for way in [
            "`--set lora.rank=8`",
            "`--lora 8`",
            "`rank = 8` under `[lora]`",
        ] {
            assert!(error.contains(way), "{error}");
        }
    }
    // Also where no factors are wanted, an empty list is a mistake.
    let error = error_of(SMALL, &["lora.rank=0", "lora.layers=[]"]);
    assert!(error.contains("for `lora.layers`"), "{error}");
}
