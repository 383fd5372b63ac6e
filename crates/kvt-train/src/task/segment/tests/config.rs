//! Settings of segmentation.

use kvt_models::Network as _;
use kvt_models::dense::WindowPadding;

use super::*;
use crate::recipe::OptimDecay;

const SMALL: &str = r#"
task = "segment"
[model]
name = "swin_tiny_patch4_window7_224"
[data]
kind = "masks"
path = "x"
classes = 3
"#;

#[test]
fn defaults_follow_from_the_task_and_the_family() {
    let swin = plan_of(SMALL, &[]).unwrap();
    assert_eq!(swin.optim.decay, OptimDecay::Names);
    assert_eq!(swin.eval.batch_size, 1);
    assert_eq!(swin.segment.window_padding, WindowPadding::Seen);
    let twins = plan_of(SMALL, &["model.name=twins_svt_small"]).unwrap();
    assert_eq!(twins.segment.window_padding, WindowPadding::Hidden);
    // Whole images, too, so that a finished run can be evaluated by windows.
    for eval in ["slide", "whole"] {
        let eval = format!("segment.eval={eval}");
        let plan = plan_of(SMALL, &[&eval, "dense.crop=[60, 90]"]).unwrap();
        assert_eq!(plan.segment.eval_crop, [60, 90]);
        assert_eq!(plan.segment.eval_stride, [40, 60]);
    }
    let classify = "[model]\nname = \"deit_tiny_patch16_224\"\n[data]\npath = \"x\"\n";
    let classify = plan_of(classify, &[]).unwrap();
    assert_eq!(classify.optim.decay, OptimDecay::Family);
}

/// A run in updates has neither epochs nor their warm-up, and its resolved plan is the same plan.
#[test]
fn updates_take_the_place_of_epochs() {
    let set = [
        "train.updates=100",
        "train.epochs=9",
        "train.eval_every_updates=10",
        "schedule.warmup_updates=5",
        "schedule.cooldown_epochs=3",
    ];
    let plan = plan_of(SMALL, &set).unwrap();
    assert_eq!(plan.train.epochs, 300);
    assert_eq!((plan.epochs(), plan.last_update()), (None, Some(100)));
    assert_eq!(
        [7, 100, 101].map(|per_epoch| plan.epochs_of(per_epoch)),
        [15, 1, 1]
    );
    assert_eq!(plan.length(), "100 updates");
    assert_eq!(
        (plan.train.eval_every, plan.schedule.warmup_epochs),
        (0, 0.0)
    );
    let again = crate::config::resolved_toml(&plan).unwrap();
    assert_eq!(plan_of(&again, &[]).unwrap(), plan);
}

/// What does not apply is refused in one sentence, which names the key.
#[test]
fn what_does_not_apply_is_refused() {
    for (set, expected) in [
        ("mix.mixup=0.8", "`[mix]` mixes images with their labels"),
        ("loss.kind=bce", "`[loss]` is of classifiers"),
        ("analysis.every=1", "layers are analysed"),
        ("init.freeze=backbone", "trains the whole network"),
        ("train.batch_size=1", "one value per channel"),
        ("data.drop_last=false", "can be a single image"),
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
        ("model.img_size=[64, 96]", "`dense.crop` sets the size"),
        ("data.kind=folder", "needs a mask of classes"),
        ("dense.scale=[32, 64]", "the larger value first"),
        ("augment.auto=rand-m9", "as `[dense]` says"),
        ("augment.preset=cifar", "as `[dense]` says"),
        ("model.num_classes=3", "is that of the masks"),
        ("data.decode=scaled", "decoded whole"),
        ("segment.pool_scales=[]", "`pool_scales`"),
        ("segment.channels=0", "expected an integer in [1, 65536]"),
        ("segment.aux_stage=5", "expected an integer in [0, 4]"),
    ] {
        let found = plan_of(SMALL, &[set]).map_or_else(|error| error, |_| String::new());
        assert!(found.contains(expected), "{set}: {found}");
    }
    let wide = ["segment.eval=slide", "segment.eval_stride=[900, 1]"];
    let error = plan_of(SMALL, &wide).unwrap_err();
    assert!(error.contains("leave pixels out"), "{error}");
    let tiny = ["model.name=twins_svt_small", "dense.crop=[16, 16]"];
    let error = plan_of(SMALL, &tiny).unwrap_err();
    assert!(error.contains("at least 32 pixels on each side"), "{error}");
    let listed = ["data.list=lists", "data.val_fraction=0.1"];
    let error = plan_of(SMALL, &listed).unwrap_err();
    assert!(error.contains("`data.list`: expected \"\" with"), "{error}");
    assert!(plan_of(SMALL, &["augment.mean=[0.5, 0.5, 0.5]"]).is_ok());
    let teacher = ["distill.kind=soft", "distill.teacher=run"];
    let error = plan_of(SMALL, &teacher).unwrap_err();
    assert!(error.contains("teachers classify whole images"), "{error}");
}

/// Without the task, its sections and its rule of decay are refused, and so are images with masks.
#[test]
fn other_tasks_refuse_its_settings() {
    let classify = "[model]\nname = \"deit_tiny_patch16_224\"\n[data]\npath = \"x\"\n";
    for (set, expected) in [
        ("segment.channels=8", "add `task = \"segment\"`"),
        ("dense.hflip=0.0", "add `task = \"segment\"`"),
        ("optim.decay=names", "unless `task = \"segment\"`"),
        ("data.kind=masks", "no class each"),
        ("data.classes=3", "add `kind = \"masks\"`"),
        ("data.train_annotations=a.json", "add `kind = \"coco\"`"),
    ] {
        let error = plan_of(classify, &[set]).unwrap_err();
        assert!(error.contains(expected), "{set}: {error}");
    }
}

/// As mmengine's constructor decides for the optimizer of either recipe (`scripts/reference/dense_recipe.py`), by each of the
/// network's own names.
#[test]
fn parameters_decay_as_in_mmsegmentation() {
    let golden = include_str!("../../../../tests/golden/dense/dense_recipe.json");
    let golden: serde_json::Value = serde_json::from_str(golden).unwrap();
    let small = [
        "model.name=swin_tiny_patch4_window7_224",
        "model.depth=[1, 1, 2, 1]",
        "model.embed_dim=8",
        "model.num_heads=[1, 2, 2, 4]",
        "segment.channels=8",
        "segment.aux_channels=4",
    ];
    let plan = plan_of(SMALL, &small).unwrap();
    let model = plan.model.config(None).unwrap();
    let network = UperNet::build(&plan, &model, 3, &Device::flex()).unwrap();
    for (model, parameters) in golden["decays"].as_object().unwrap() {
        let parameters = parameters.as_object().unwrap();
        assert!(parameters.len() > 100);
        for (name, decays) in parameters {
            let parameter = kvt_models::Parameter {
                name: name.clone(),
                ..network.parameters().swap_remove(0)
            };
            let found = OptimDecay::Names.decays(&network, &parameter);
            assert_eq!(Some(found), decays.as_bool(), "{model} {name}");
        }
        let has_heads = |part: &str| parameters.keys().any(|name| name.starts_with(part));
        assert!(has_heads("decode_head.") && has_heads("auxiliary_head."));
    }
    for parameter in network.parameters() {
        assert!(OptimDecay::All.decays(&network, &parameter));
        let name = &parameter.name;
        let by_family = OptimDecay::Family.decays(&network, &parameter);
        assert!(!by_family || parameter.shape.len() > 1, "{name}");
    }
}
