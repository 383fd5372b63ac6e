//! Unknown keys and wrong types.

use super::*;

#[test]
fn unknown_keys_are_told_apart() {
    let text = "epochs = 3\n[model]\nembed_dm = 192\nbogus = 1\n[optimizer]\nlr = 1\n[train]\nlabel_smothing = 0.1\n[attention]\nkind = \"knn\"\n";
    assert_snapshot!(error_of(text, &[]), @r#"
    configs/x.toml:1:1: unknown key `epochs` at the top level
      |
    1 | epochs = 3
      | ^^^^^^
      help: `epochs` belongs in `[train]`

    configs/x.toml:3:1: unknown key `embed_dm` in `[model]`
      |
    3 | embed_dm = 192
      | ^^^^^^^^
      help: did you mean `embed_dim`?

    configs/x.toml:4:1: unknown key `bogus` in `[model]`
      |
    4 | bogus = 1
      | ^^^^^
      help: the keys here are `attn_drop`, `cov_dims`, `depth`, `drop_path`, `embed_dim`, `head_drop`, `img_size`, `in_chans`, `inner_dim`, `inner_num_heads`, `inner_stride`, `kv_stride`, `mlp_ratio`, `name`, `num_classes`, `num_heads`, `patch_size`, `patch_stride`, `pool`, `qkv_bias`, `sr_ratio`, `stem_dim`, `strides`, `token_dim`, `window_size`

    configs/x.toml:5:2: unknown section `[optimizer]`
      |
    5 | [optimizer]
      |  ^^^^^^^^^
      help: did you mean `[optim]`?

    configs/x.toml:8:1: unknown key `label_smothing` in `[train]`
      |
    8 | label_smothing = 0.1
      | ^^^^^^^^^^^^^^
      help: did you mean `label_smoothing` in `[loss]`?

    configs/x.toml:9:2: unknown section `[attention]`
      |
    9 | [attention]
      |  ^^^^^^^^^
      help: did you mean `[model.attention]`?

    6 problems in the configuration
    "#);
}

#[test]
fn an_unknown_key_of_an_override_names_the_override() {
    assert_snapshot!(error_of(SMALL, &["model.nme=deit", "nowhere.at.all=1"]), @r#"
    --set model.nme=deit: unknown key `nme` in `[model]`
      help: did you mean `name`?

    --set nowhere.at.all=1: unknown section `[nowhere]`
      help: the sections are `[analysis]`, `[augment]`, `[checkpoint]`, `[data]`, `[data.shapes]`, `[dense]`, `[detect]`, `[dino]`, `[distill]`, `[ema]`, `[eval]`, `[init]`, `[log]`, `[lora]`, `[loss]`, `[mix]`, `[model]`, `[model.attention]`, `[model.class_attention]`, `[multi_label]`, `[multiscale]`, `[optim]`, `[report]`, `[run]`, `[schedule]`, `[segment]`, `[train]`

    2 problems in the configuration
    "#);
}

#[test]
fn wrong_types_say_what_is_expected() {
    let text = "seed = -1\neval = 3\n[model.attention]\nkind = \"kn\"\nneighbors = \"half\"\n[augment]\nscale = [1.0]\n[train.epochs]\nx = 1\n";
    let message = error_of(text, &["data.workers=many", "log.tensorboard=yes"]);
    assert_snapshot!(without_kinds(&message), @r#"
    configs/x.toml:1:8: invalid value `-1` for `seed`: expected an integer >= 0
      |
    1 | seed = -1
      |        ^^

    configs/x.toml:2:8: `eval` is a section, not a value
      |
    2 | eval = 3
      |        ^
      help: put its keys under `[eval]`

    configs/x.toml:4:8: invalid value `"kn"` for `model.attention.kind`: expected KINDS
      |
    4 | kind = "kn"
      |        ^^^^
      help: did you mean `"knn"`?

    configs/x.toml:5:13: invalid value `"half"` for `model.attention.neighbors`: expected an integer >= 1 (a count) or a float in (0, 1] (a share of the keys) or a non-empty list of them
      |
    5 | neighbors = "half"
      |             ^^^^^^

    configs/x.toml:7:9: invalid value `[1.0]` for `augment.scale`: expected a list of 2 x float in (0, 1]
      |
    7 | scale = [1.0]
      |         ^^^^^

    configs/x.toml:8:8: `train.epochs` is a value, not a section
      |
    8 | [train.epochs]
      |        ^^^^^^

    --set data.workers=many: invalid value `"many"` for `data.workers`: expected `"auto"` or an integer in [0, 1024]

    --set log.tensorboard=yes: invalid value `"yes"` for `log.tensorboard`: expected `true` or `false`

    8 problems in the configuration
    "#);
}

/// A mistake of one kind does not hide mistakes of another kind.
#[test]
fn mistakes_of_all_kinds_are_reported_together() {
    let text = "[model]\nname = \"deit_tinny_patch16_224\"\ndepht = 2\n[model.attention]\nneighbors = 3\n[data]\nkind = \"shapes\"\n[augment]\nratio = [2, 1]\n[train]\nepochs = \"ten\"\ndevice = \"gpu\"\n";
    assert_snapshot!(error_of(text, &["optim.lr=0"]), @r#"
    configs/x.toml:2:8: unknown model `deit_tinny_patch16_224`
      |
    2 | name = "deit_tinny_patch16_224"
      |        ^^^^^^^^^^^^^^^^^^^^^^^^
      help: did you mean `deit_tiny_patch16_224`?

    configs/x.toml:3:1: unknown key `depht` in `[model]`
      |
    3 | depht = 2
      | ^^^^^
      help: did you mean `depth`?

    configs/x.toml:5:13: `neighbors` is set, but no attention kind is set
      |
    5 | neighbors = 3
      |             ^
      help: add `kind = "knn"` under `[model.attention]`, or "dense"

    configs/x.toml:9:9: invalid value `[2, 1]` for `augment.ratio`: expected the smaller value first
      |
    9 | ratio = [2, 1]
      |         ^^^^^^

    configs/x.toml:11:10: invalid value `"ten"` for `train.epochs`: expected an integer in [1, 4294967295]
       |
    11 | epochs = "ten"
       |          ^^^^^

    configs/x.toml:12:10: invalid value `"gpu"` for `train.device`: expected `auto`, `cpu`, `wgpu`, `vulkan`, `metal`, `cuda` or `rocm`, a GPU with an index up to 255 as in `cuda:1`
       |
    12 | device = "gpu"
       |          ^^^^^

    --set optim.lr=0: invalid value `0` for `optim.lr`: expected a float in (0, 1e30]

    7 problems in the configuration
    "#);
}

#[test]
fn an_override_does_not_hide_a_section_written_as_a_value() {
    let text = "model = 3\n[train.epochs]\nx = 1\n";
    let message = error_of(
        text,
        &["model.name=deit_tiny_patch16_224", "train.epochs=1"],
    );
    assert!(
        message.contains("`model` is a section, not a value"),
        "{message}"
    );
    assert!(
        message.contains("`train.epochs` is a value, not a section"),
        "{message}"
    );
}
