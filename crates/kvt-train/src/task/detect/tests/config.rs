//! Settings of detection.

use kvt_data::schema;
use kvt_models::dense::WindowPadding;
use kvt_models::dense::mask_rcnn::MaskRcnnConfig;

use super::*;
use crate::recipe::{OptimDecay, Schedule};

const SMALL: &str = r#"
task = "detect"
[model]
name = "swin_tiny_patch4_window7_224"
[data]
kind = "coco"
path = "x"
"#;

#[test]
fn defaults_follow_from_the_task_and_the_family() {
    let swin = plan_of(SMALL, &[]).unwrap();
    assert_eq!(swin.optim.decay, OptimDecay::Names);
    assert_eq!(swin.eval.batch_size, 1);
    assert_eq!(swin.detect.window_padding, WindowPadding::Seen);
    assert!(swin.data.group_orientation);
    let twins = plan_of(SMALL, &["model.name=twins_svt_small"]).unwrap();
    assert_eq!(twins.detect.window_padding, WindowPadding::Seen);
    let again = crate::config::resolved_toml(&swin).unwrap();
    assert_eq!(plan_of(&again, &[]).unwrap(), swin);
}

/// The defaults of the section are in range.
#[test]
fn the_network_is_that_of_the_recipe() {
    let config = MaskRcnnConfig::default();
    assert!(schema::check(&config).is_ok());
    assert_eq!(config.with_classes(3).num_classes, 3);
}

/// What does not apply is refused in one sentence, which names the key.
#[test]
fn what_does_not_apply_is_refused() {
    for (set, expected) in [
        ("mix.mixup=0.8", "`[mix]` mixes images with their labels"),
        ("loss.kind=bce", "`[loss]` is of classifiers"),
        ("analysis.every=1", "layers are analysed"),
        ("init.freeze=backbone", "trains the whole network"),
        ("eval.batch_size=2", "evaluates image by image"),
        (
            "model.name=deit_tiny_patch16_224",
            "`deit_tiny_patch16_224` has one map",
        ),
        ("model.window_size=1000", "`window_size` is 1000: expected"),
        (
            "model.window_size=1000",
            "set it to less, or leave it out: a dense network",
        ),
        ("model.img_size=[64, 96]", "`multiscale.max` set the size"),
        ("data.kind=folder", "needs images with objects"),
        ("multiscale.max=100", "the largest of `sizes`"),
        ("augment.auto=rand-m9", "as `[multiscale]` says"),
        ("model.num_classes=3", "is that of the annotations"),
        ("data.decode=scaled", "decoded whole"),
        ("data.repeats=2", "repeated augmentation"),
        ("detect.channels=0", "expected an integer in [1, 65536]"),
        ("detect.score=1.5", "expected a float in [0, 1]"),
    ] {
        let found = plan_of(SMALL, &[set]).map_or_else(|error| error, |_| String::new());
        assert!(found.contains(expected), "{set}: {found}");
    }
    assert!(plan_of(SMALL, &["augment.mean=[0.5, 0.5, 0.5]"]).is_ok());
    let teacher = ["distill.kind=soft", "distill.teacher=run"];
    let error = plan_of(SMALL, &teacher).unwrap_err();
    assert!(error.contains("teachers classify whole images"), "{error}");
}

/// Without the task, its sections are refused, and so are images with objects.
#[test]
fn other_tasks_refuse_its_settings() {
    let classify = "[model]\nname = \"deit_tiny_patch16_224\"\n[data]\npath = \"x\"\n";
    for (set, expected) in [
        ("detect.channels=8", "add `task = \"detect\"`"),
        ("multiscale.hflip=0.0", "add `task = \"detect\"`"),
        ("data.kind=coco", "no class each"),
    ] {
        let error = plan_of(classify, &[set]).unwrap_err();
        assert!(error.contains(expected), "{set}: {error}");
    }
}

/// The rate drops after the epochs that are named, not at equal distances.
#[test]
fn rates_drop_after_named_epochs() {
    let set = [
        "schedule.kind=step",
        "schedule.step_at=[2.0, 5.0]",
        "schedule.per=step",
        "schedule.warmup_epochs=0",
        "optim.lr=1.0",
        "optim.lr_batch=0",
    ];
    let schedule = Schedule::of(&plan_of(SMALL, &set).unwrap(), 10);
    let rates = [0, 19, 20, 49, 50, 900].map(|step| schedule.lr(step, 0));
    let expected = [1.0, 1.0, 0.1, 0.1, 0.01, 0.01];
    for (rate, expected) in rates.into_iter().zip(expected) {
        assert!((rate - expected).abs() < 1e-12, "{rate} {expected}");
    }
}
