//! Values outside their range, and missing values.

use super::*;

/// A name of timm's of which kvt has the relatives is no misspelling of theirs.
#[test]
fn models_that_kvt_lacks_are_refused_with_the_reason() {
    for (set, reason) in [
        ("model.name=beit_base_patch16_224", "help: kvt lacks BEiT"),
        ("init.weights=eva02_base_patch14_224", "; kvt lacks EVA-02"),
        (
            "init.weights=timm/beit_base_patch16_224.in22k_ft_in22k",
            "; kvt lacks BEiT",
        ),
    ] {
        let error = error_of(SMALL, &[set]);
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn impossible_values_are_all_reported() {
    let text = "[model]\nname = \"deit_tiny_patch16_244\"\ndrop_path = 1.0\n[model.attention]\nkind = \"knn\"\nneighbors = [0, 1.5, 0.5]\n[data]\nkind = \"shapes\"\n[optim]\nbetas = [0.9, 1.0]\nlr = nan\n[augment]\nscale = [1.0, 0.5]\n";
    assert_snapshot!(error_of(text, &["train.epochs=0", "data.shapes.classes=11"]), @r#"
    configs/x.toml:2:8: unknown model `deit_tiny_patch16_244`
      |
    2 | name = "deit_tiny_patch16_244"
      |        ^^^^^^^^^^^^^^^^^^^^^^^
      help: did you mean `deit_tiny_patch16_224`?

    configs/x.toml:3:13: invalid value `1.0` for `model.drop_path`: expected a float in [0, 1)
      |
    3 | drop_path = 1.0
      |             ^^^

    configs/x.toml:6:13: invalid value `0` for `model.attention.neighbors`: expected an integer >= 1 (a count) or a float in (0, 1] (a share of the keys)
      |
    6 | neighbors = [0, 1.5, 0.5]
      |             ^^^^^^^^^^^^^

    configs/x.toml:6:13: invalid value `1.5` for `model.attention.neighbors`: expected an integer >= 1 (a count) or a float in (0, 1] (a share of the keys)
      |
    6 | neighbors = [0, 1.5, 0.5]
      |             ^^^^^^^^^^^^^

    configs/x.toml:10:9: invalid value `1.0` for `optim.betas`: expected a float in [0, 1)
       |
    10 | betas = [0.9, 1.0]
       |         ^^^^^^^^^^

    configs/x.toml:11:6: invalid value `nan` for `optim.lr`: expected a finite float in (0, 1e30]
       |
    11 | lr = nan
       |      ^^^

    configs/x.toml:13:9: invalid value `[1.0, 0.5]` for `augment.scale`: expected the smaller value first
       |
    13 | scale = [1.0, 0.5]
       |         ^^^^^^^^^^

    --set data.shapes.classes=11: invalid value `11` for `data.shapes.classes`: expected an integer in [2, 10]

    --set train.epochs=0: invalid value `0` for `train.epochs`: expected an integer in [1, 4294967295]

    9 problems in the configuration
    "#);
}

/// Generated images are counted before they are created.
#[test]
fn a_subset_is_not_larger_than_the_generated_images() {
    let few = [
        "data.shapes.classes=3",
        "data.shapes.train_per_class=10",
        "data.subset=30",
    ];
    assert_eq!(plan_of(SMALL, &few).unwrap().data.subset, 30);
    let more = [few[0], few[1], "data.subset=31"];
    assert_snapshot!(error_of(SMALL, &more), @"--set data.subset=31: invalid value `31` for `data.subset`: expected at most 30, the training images of `[data.shapes]`");
    // For other kinds of data, the number is not known yet.
    let folder = ["data.kind=folder", "data.path=d", "data.subset=50001"];
    assert!(plan_of(SMALL, &[&few[..2], &folder[..]].concat()).is_ok());
}

#[test]
fn every_number_has_a_range() {
    let refused = [
        "model.img_size=0",
        "model.img_size=[64]",
        "model.img_size=[0, 64]",
        "model.img_size=[64, 96, 3]",
        "model.img_size=64x96",
        "model.kv_stride=0",
        "model.embed_dim=[]",
        "model.depth=[2, 0]",
        "model.mlp_ratio=0",
        "model.attn_drop=-0.1",
        "model.attention.temperature=0",
        "model.attention.temperature=inf",
        "model.attention.temperature=1e-300",
        "model.attention.temperature=1e300",
        "model.attention.neighbors=-1",
        "model.attention.neighbors=0.0",
        "model.attention.neighbors=[]",
        "init.weights=w.onnx",
        "data.train=",
        "data.prefetch=0",
        "data.repeats=0",
        "data.replicas=65",
        "data.max_pixels=0",
        "data.prefetch=1000000000000",
        "data.workers=1000000000",
        "data.shapes.clutter=1.1",
        "data.shapes.image_size=4",
        "data.shapes.image_size=1000000",
        "data.shapes.train_per_class=1000000000000",
        "data.shapes.val_per_class=0",
        "augment.hflip=2",
        "augment.padding=70000",
        "augment.std=[0, 1, 1]",
        "augment.std=[1, 1e-300, 1]",
        "augment.std=[1, 1, inf]",
        "augment.mean=[nan, 1, 1]",
        "augment.mean=[1e300, 1, 1]",
        "augment.ratio=[2, 1]",
        "augment.crop_pct=0",
        "augment.crop_pct=1e-6",
        "augment.crop_pct=2.1",
        "augment.vflip=1.1",
        "augment.auto=rand-m9-foo1",
        "augment.auto=randaug",
        "augment.color_jitter=-0.1",
        "augment.erase=1.5",
        "augment.erase_count=0",
        "optim.lr=inf",
        "optim.lr=1e300",
        "optim.eps=0",
        "optim.eps=1e-300",
        "optim.eps=1e300",
        "optim.weight_decay=-1",
        "optim.weight_decay=1e300",
        "optim.momentum=1",
        "optim.layer_decay=0",
        "optim.layer_decay=1.1",
        "optim.clip_norm=inf",
        "optim.clip_value=-1",
        "optim.clip_parameter=-1",
        "optim.clip_agc=nan",
        "schedule.warmup_epochs=-1",
        "schedule.warmup_epochs=inf",
        "schedule.warmup_lr=1e300",
        "schedule.min_lr=-1",
        "schedule.min_lr=1e300",
        "schedule.cooldown_epochs=-1",
        "schedule.cooldown_epochs=10000000",
        "schedule.step_epochs=0",
        "schedule.step_rate=0",
        "schedule.power=0",
        "schedule.weight_decay_end=-1",
        "loss.label_smoothing=1",
        "loss.kind=mse",
        "loss.class_weights=[]",
        "loss.class_weights=[1.0, 0.0]",
        "loss.class_weights=[1.0, -1.0]",
        "loss.class_weights=[nan, 1.0]",
        "loss.class_weights=[1.0, inf]",
        "loss.class_weights=[1e39, 1.0]",
        "lora.layers=[]",
        "loss.bce_threshold=1",
        "loss.token_weight=-1",
        "mix.mixup=-1",
        "mix.cutmix=inf",
        "mix.mix_token=-1",
        "mix.prob=1.1",
        "mix.switch_prob=nan",
        "mix.cutmix_minmax=[0.8, 0.2]",
        "mix.cutmix_minmax=[0.2, 1.2]",
        "mix.mode=half",
        "distill.alpha=1.5",
        "distill.temperature=0",
        "ema.decay=1",
        "ema.decay=-0.1",
        "ema.decay=nan",
        "train.batch_size=0",
        "train.batch_size=4294967296",
        "train.accumulate=0",
        "train.accumulate=4294967296",
        "train.epochs=4294967296",
        "train.max_steps=0",
        "train.max_hours=0",
        "train.max_hours=1e-300",
        "train.max_hours=1e300",
        "train.device=",
        "train.device=gpu",
        "train.device=cuda:99999999999",
        "train.device=cpu:3",
        "train.device=wgpu:...",
        "eval.batch_size=0",
        "eval.batch_size=1000000000000",
        "log.every_steps=0",
        "checkpoint.keep_last=0",
        "run.dir=",
    ];
    for set in refused {
        let message = error_of(SMALL, &[set]);
        let key = set.split('=').next().unwrap();
        assert!(
            message.starts_with(&format!("--set {set}: invalid value `"))
                && message.contains(&format!("for `{key}`: expected ")),
            "{message}"
        );
    }
}

/// Its inverse is infinite in `f32`, and a batch of this class alone has no loss then.
#[test]
fn a_tiny_weight_of_a_class_is_named() {
    let set = "loss.class_weights=[1.0, 1e-45, 0.5]";
    assert_snapshot!(error_of(SMALL, &[set]), @"--set loss.class_weights=[1.0, 1e-45, 0.5]: invalid value `1e-45` for `loss.class_weights`: expected a weight from 1e-18 to 1e18 for class 1, counted from 0");
    assert!(plan_of(SMALL, &["loss.class_weights=[1e-18, 1e18]"]).is_ok());
}

#[test]
fn missing_keys_say_where_to_put_them() {
    assert_snapshot!(error_of("seed = 1", &[]), @r#"
    configs/x.toml: missing key `model.name`
      help: add `name = "deit_tiny_patch16_224"` under `[model]`

    configs/x.toml: missing key `data.path`
      help: add `path = "FOLDER"` under `[data]`, with images at `FOLDER/train/<class>/*`, or `kind = "shapes"` for generated images

    2 problems in the configuration
    "#);
}

/// The generator of shapes checks its own ranges for other callers; `config check` must agree.
#[test]
fn shapes_that_the_configuration_allows_are_those_that_can_be_made() {
    use crate::data::shapes::ShapesConfig;
    let of = |set: &dyn Fn(&mut ShapesConfig)| {
        let mut shapes = ShapesConfig::default();
        set(&mut shapes);
        shapes.validate().is_ok()
    };
    for number in [0, 1, 2, 7, 8, 10, 11, 1024, 1025, 100_000, 100_001] {
        for (key, made) in [
            (
                "image_size",
                of(&|shapes| shapes.image_size = u32::try_from(number).unwrap()),
            ),
            ("classes", of(&|shapes| shapes.classes = number)),
            (
                "train_per_class",
                of(&|shapes| shapes.train_per_class = number),
            ),
            ("val_per_class", of(&|shapes| shapes.val_per_class = number)),
        ] {
            let set = format!("data.shapes.{key}={number}");
            assert_eq!(plan_of(SMALL, &[&set]).is_ok(), made, "{set}");
        }
    }
}

#[test]
fn settings_of_scenes_have_an_order_and_count_only_for_scenes() {
    let scenes = [
        "task=segment",
        "model.name=swin_tiny_patch4_window7_224",
        "data.shapes.layout=dense",
    ];
    let with = |last| [&scenes[..], &[last]].concat();
    let of = |set: &[&str]| plan_of(SMALL, set).unwrap().data.shapes.unwrap();
    assert_eq!(of(&with("data.shapes.objects=[2, 5]")).objects, [2, 5]);
    assert_eq!(of(&["data.shapes.objects=[2, 5]"]).objects, [1, 2]);
    let sets = with("data.shapes.objects=[3, 1]");
    assert_snapshot!(error_of(SMALL, &sets), @"--set data.shapes.objects=[3, 1]: invalid value `[3, 1]` for `data.shapes.objects`: expected the smaller value first");
}

/// The largest allowed numbers do not overflow when they are multiplied.
#[test]
fn the_largest_update_can_be_counted() {
    let sets = ["train.batch_size=65536", "train.accumulate=65536"];
    let plan = plan_of(SMALL, &sets).unwrap();
    let images = plan.train.batch_size.checked_mul(plan.train.accumulate);
    assert_eq!(images, Some(1 << 32));
    assert_eq!(plan.eval.batch_size, 131_072);
    // The value of the resulting default can also be written explicitly.
    let text = resolved_toml(&plan).unwrap();
    assert_eq!(plan_of(&text, &[]).unwrap().eval, plan.eval);
}
