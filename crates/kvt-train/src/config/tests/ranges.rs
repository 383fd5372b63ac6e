//! Values outside their range, and missing ones.

use super::*;

#[test]
fn impossible_values_are_all_reported() {
    let text = "[model]\nname = \"deit_tiny_patch16_244\"\ndrop_path = 1.0\n[model.attention]\nkind = \"knn\"\nneighbors = [0, 1.5, 0.5]\n[data]\nkind = \"shapes\"\n[optim]\nbetas = [0.9, 1.0]\nlr = nan\n[augment]\nscale = [1.0, 0.5]\n";
    assert_snapshot!(error_of(text, &["train.epochs=0", "data.shapes.classes=11"]), @r#"
    configs/x.toml:2:8: unknown model `deit_tiny_patch16_244`
      |
    2 | name = "deit_tiny_patch16_244"
      |        ^^^^^^^^^^^^^^^^^^^^^^^
      help: did you mean `deit_tiny_patch16_224`?

    configs/x.toml:3:13: invalid value `1.0` for `model.drop_path`: expected a value in [0.0, 1.0)
      |
    3 | drop_path = 1.0
      |             ^^^

    configs/x.toml:6:13: invalid value `0` for `model.attention.neighbors`: expected a count of at least 1
      |
    6 | neighbors = [0, 1.5, 0.5]
      |             ^^^^^^^^^^^^^

    configs/x.toml:6:13: invalid value `1.5` for `model.attention.neighbors`: expected a share of the keys in (0, 1], or an integer for a count
      |
    6 | neighbors = [0, 1.5, 0.5]
      |             ^^^^^^^^^^^^^

    configs/x.toml:10:9: invalid value `1.0` for `optim.betas`: expected a value in [0.0, 1.0)
       |
    10 | betas = [0.9, 1.0]
       |         ^^^^^^^^^^

    configs/x.toml:11:6: invalid value `NaN` for `optim.lr`: expected more than 0.0
       |
    11 | lr = nan
       |      ^^^

    configs/x.toml:13:9: invalid value `[1.0, 0.5]` for `augment.scale`: expected the smaller value first
       |
    13 | scale = [1.0, 0.5]
       |         ^^^^^^^^^^

    --set data.shapes.classes=11: invalid value `11` for `data.shapes.classes`: expected a value in [2, 10]

    --set train.epochs=0: invalid value `0` for `train.epochs`: expected at least 1

    9 problems in the configuration
    "#);
}

#[test]
fn every_number_has_a_range() {
    let refused = [
        "model.img_size=0",
        "model.kv_stride=0",
        "model.embed_dim=[]",
        "model.depth=[2, 0]",
        "model.mlp_ratio=0",
        "model.attn_drop=-0.1",
        "model.attention.temperature=0",
        "model.attention.temperature=inf",
        "model.attention.neighbors=-1",
        "model.attention.neighbors=0.0",
        "model.attention.neighbors=[]",
        "init.weights=w.bin",
        "data.train=",
        "data.prefetch=0",
        "data.max_pixels=0",
        "data.shapes.clutter=1.1",
        "data.shapes.image_size=4",
        "data.shapes.val_per_class=0",
        "augment.hflip=2",
        "augment.std=[0, 1, 1]",
        "augment.mean=[nan, 1, 1]",
        "augment.ratio=[2, 1]",
        "augment.crop_pct=0",
        "optim.eps=0",
        "optim.weight_decay=-1",
        "optim.clip_norm=inf",
        "schedule.warmup_epochs=-1",
        "schedule.min_lr=-1",
        "loss.label_smoothing=1",
        "ema.decay=1",
        "ema.decay=-0.1",
        "ema.decay=nan",
        "train.batch_size=0",
        "train.accumulate=0",
        "train.max_steps=0",
        "eval.batch_size=0",
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
