#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

use insta::assert_snapshot;
use tempfile::TempDir;

use super::fields::sections;
use super::resolved::entries;
use super::*;

const MODELS: &[&str] = &["deit_tiny_patch16_224", "deit_small_patch16_224"];

const SMALL: &str = "[model]\nname = \"deit_tiny_patch16_224\"\n[data]\nkind = \"shapes\"\n";

/// Sets every key there is, each to another value than its default.
const FULL: &str = r#"
seed = 7
[model]
name = "deit_small_patch16_224"
img_size = 32
patch_size = 4
patch_stride = 2
window_size = 3
kv_stride = 1
embed_dim = [96, 192]
depth = [6, 1]
num_heads = 4
mlp_ratio = 2.0
in_chans = 1
num_classes = 4
qkv_bias = false
drop_path = 0.1
attn_drop = 0.2
[model.attention]
kind = "knn"
neighbors = [100, 0.25, 1.0, 1]
selection = "euclidean"
implementation = "gathered"
temperature = 2.0
[init]
weights = "start.pth"
reset_head = true
[data]
kind = "shapes"
path = "a \"quoted\" folder"
train = "t"
val = "v"
class_order = "natural"
shuffle = false
drop_last = false
workers = 3
prefetch = 9
on_error = "skip"
max_skipped = 5
[data.shapes]
image_size = 48
classes = 4
train_per_class = 20
val_per_class = 10
clutter = 0.0
occlusion = 1.0
seed = 3
[augment]
preset = "cifar"
scale = [0.5, 0.9]
ratio = [1.0, 1.0]
hflip = 0.25
padding = 2
interpolation = "bilinear"
mean = [0.1, 0.2, 0.3]
std = [1.0, 2.0, 3.0]
crop_pct = 0.9
[optim]
name = "adamw"
lr = 1e-3
lr_batch = 0
betas = [0.8, 0.95]
eps = 1e-6
weight_decay = 0.0
clip_norm = 1.0
[schedule]
kind = "constant"
warmup_epochs = 0.5
warmup_lr = 0.0
min_lr = 1e-12
per = "step"
[loss]
label_smoothing = 0.0
[ema]
decay = 0.99996
[train]
epochs = 2
batch_size = 8
accumulate = 4
max_steps = 100
device = "cpu"
eval_every = 0
[eval]
batch_size = 10
[log]
every_steps = 5
tensorboard = false
[checkpoint]
every_epochs = 0
every_steps = 50
[run]
dir = "elsewhere"
"#;

fn strings(list: &[&str]) -> Vec<String> {
    list.iter().map(|item| (*item).to_owned()).collect()
}

fn plan_of(text: &str, overrides: &[&str]) -> Result<Plan, ConfigError> {
    let path = Path::new("configs/x.toml");
    Document::from_text(path, text.to_owned(), &strings(overrides))?.plan(MODELS)
}

fn error_of(text: &str, overrides: &[&str]) -> String {
    plan_of(text, overrides).unwrap_err().to_string()
}

/// Writes files and loads the first.
fn load(files: &[(&str, &str)]) -> (TempDir, Result<Plan, ConfigError>) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, text).unwrap();
    }
    let plan = Document::load(&folder.path().join(files[0].0), &[])
        .and_then(|document| document.plan(MODELS));
    (folder, plan)
}

/// As [`load`], for files that are wrong; the message without the folder's own name.
fn load_error(files: &[(&str, &str)]) -> String {
    let (folder, plan) = load(files);
    let message = plan.unwrap_err().to_string();
    message.replace(folder.path().to_str().unwrap(), "DIR")
}

#[test]
fn defaults_are_those_of_the_deit_recipe() {
    let plan = plan_of(SMALL, &[]).unwrap();
    assert_snapshot!(resolved_toml(&plan), @r#"
    seed = 0

    [model]
    name = "deit_tiny_patch16_224"
    drop_path = 0.0
    attn_drop = 0.0

    [model.attention]
    kind = "dense"
    temperature = 1.0

    [data]
    kind = "shapes"
    path = "data/shapes"
    train = "train"
    val = "val"
    class_order = "byte"
    shuffle = true
    drop_last = true
    workers = "auto"
    prefetch = 4
    on_error = "fail"

    [data.shapes]
    image_size = 32
    classes = 10
    train_per_class = 500
    val_per_class = 100
    clutter = 0.5
    occlusion = 0.3
    seed = 0

    [augment]
    preset = "imagenet"
    scale = [0.08, 1.0]
    ratio = [0.75, 1.3333333333333333]
    hflip = 0.5
    padding = 4
    interpolation = "bicubic"
    mean = [0.485, 0.456, 0.406]
    std = [0.229, 0.224, 0.225]
    crop_pct = 0.875

    [optim]
    name = "adamw"
    lr = 0.0005
    lr_batch = 512
    betas = [0.9, 0.999]
    eps = 0.00000001
    weight_decay = 0.05
    clip_norm = 0.0

    [schedule]
    kind = "cosine"
    warmup_epochs = 5.0
    warmup_lr = 0.000001
    min_lr = 0.00001
    per = "epoch"

    [loss]
    label_smoothing = 0.1

    [ema]
    decay = 0.0

    [train]
    epochs = 300
    batch_size = 64
    accumulate = 1
    device = "auto"
    eval_every = 1

    [eval]
    batch_size = 128

    [log]
    every_steps = 1
    tensorboard = true

    [checkpoint]
    every_epochs = 1
    every_steps = 0

    [run]
    dir = "runs/x"
    "#);
}

#[test]
fn presets_set_flip_and_crop() {
    let of = |sets: &[&str]| {
        let plan = plan_of(SMALL, sets).unwrap();
        (plan.augment.hflip, plan.augment.crop_pct)
    };
    assert_eq!(of(&["augment.preset=cifar"]), (0.5, 1.0));
    assert_eq!(of(&["augment.preset=none"]), (0.0, 1.0));
    assert_eq!(
        of(&[
            "augment.preset=none",
            "augment.hflip=1",
            "augment.crop_pct=0.5"
        ]),
        (1.0, 0.5)
    );
}

#[test]
fn layers_merge_by_key_and_the_file_wins() {
    let (_folder, plan) = load(&[
        (
            "sub/top.toml",
            "base = \"../middle.toml\"\n[optim]\nbetas = [0.5, 0.6]\n",
        ),
        (
            "middle.toml",
            "base = \"base.toml\"\n[optim]\nlr = 0.25\nweight_decay = 0.5\n",
        ),
        (
            "base.toml",
            "seed = 3\n[model]\nname = \"deit_tiny_patch16_224\"\n[data]\npath = \"d\"\n[optim]\nlr = 1.0\nclip_norm = 5\n",
        ),
    ]);
    let plan = plan.unwrap();
    assert_eq!(plan.seed, 3);
    assert_eq!(plan.optim.lr, 0.25);
    assert_eq!(plan.optim.weight_decay, 0.5);
    assert_eq!(plan.optim.clip_norm, 5.0);
    assert_eq!(plan.optim.betas, [0.5, 0.6]);
    assert_eq!(plan.run.dir, Path::new("runs/top"));
}

#[test]
fn overrides_come_last_and_words_need_no_quotes() {
    let sets = [
        "model.name=deit_small_patch16_224",
        "data.path=/some/place with spaces",
        "model.attention.kind=knn",
        "model.attention.neighbors=[7, 0.5]",
        "train.epochs=1",
        "train.epochs=9",
        "log = { every_steps = 4 }",
    ];
    let plan = plan_of(SMALL, &sets).unwrap();
    assert_eq!(plan.model.name, "deit_small_patch16_224");
    assert_eq!(plan.data.path, Path::new("/some/place with spaces"));
    assert_eq!(
        plan.model.attention.kind,
        AttentionKind::Knn {
            neighbors: vec![NeighborsSetting::Count(7), NeighborsSetting::Fraction(0.5)],
            selection: SelectionSetting::DotProduct,
            implementation: ImplementationSetting::Auto,
        }
    );
    assert_eq!(plan.train.epochs, 9);
    assert_eq!(plan.log.every_steps, 4);
    assert!(plan.log.tensorboard);
}

#[test]
fn dense_attention_ignores_the_keys_of_knn_only_if_it_is_asked_for() {
    let sets = ["model.attention.kind=dense", "model.attention.neighbors=3"];
    assert_eq!(plan_of(SMALL, &sets).unwrap(), plan_of(SMALL, &[]).unwrap());
    let text = format!("{SMALL}[model.attention]\nneighbors = 3\n");
    assert_snapshot!(error_of(&text, &["model.attention.selection=euclidean"]), @r#"
    configs/x.toml:6:13: `neighbors` is set, but nothing says which attention
      |
    6 | neighbors = 3
      |             ^
      help: add `kind = "knn"` under `[model.attention]`, or "dense"

    --set model.attention.selection=euclidean: `selection` is set, but nothing says which attention
      help: add `kind = "knn"` under `[model.attention]`, or "dense"

    2 problems in the configuration
    "#);
}

#[test]
fn only_the_model_can_be_asked_for() {
    let text = "[model]\nname = \"deit_tiny_patch16_224\"\ndepth = 2\n".to_owned();
    let document = Document::from_text(Path::new("x.toml"), text, &[]).unwrap();
    assert!(document.plan(MODELS).is_err());
    assert_eq!(document.model_plan(MODELS).unwrap().depth, [2]);
}

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
      help: the keys here are `attn_drop`, `depth`, `drop_path`, `embed_dim`, `img_size`, `in_chans`, `kv_stride`, `mlp_ratio`, `name`, `num_classes`, `num_heads`, `patch_size`, `patch_stride`, `qkv_bias`, `window_size`

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
      help: the sections are `[augment]`, `[checkpoint]`, `[data]`, `[data.shapes]`, `[ema]`, `[eval]`, `[init]`, `[log]`, `[loss]`, `[model]`, `[model.attention]`, `[optim]`, `[run]`, `[schedule]`, `[train]`

    2 problems in the configuration
    "#);
}

#[test]
fn wrong_types_say_what_is_expected() {
    let text = "seed = -1\neval = 3\n[model.attention]\nkind = \"kn\"\nneighbors = \"half\"\n[augment]\nscale = [1.0]\n[train.epochs]\nx = 1\n";
    assert_snapshot!(error_of(text, &["data.workers=many", "log.tensorboard=yes"]), @r#"
    configs/x.toml:1:8: invalid value `-1` for `seed`: expected integer >= 0
      |
    1 | seed = -1
      |        ^^

    configs/x.toml:2:8: `eval` is a section, not a value
      |
    2 | eval = 3
      |        ^
      help: put its keys under `[eval]`

    configs/x.toml:4:8: invalid value `"kn"` for `model.attention.kind`: expected `"dense"` or `"knn"`
      |
    4 | kind = "kn"
      |        ^^^^
      help: did you mean `"knn"`?

    configs/x.toml:5:13: invalid value `"half"` for `model.attention.neighbors`: expected integer or float or list of (integer or float)
      |
    5 | neighbors = "half"
      |             ^^^^^^

    configs/x.toml:7:9: invalid value `[1.0]` for `augment.scale`: expected list of 2 x float
      |
    7 | scale = [1.0]
      |         ^^^^^

    configs/x.toml:8:8: `train.epochs` is a value, not a section
      |
    8 | [train.epochs]
      |        ^^^^^^

    --set data.workers=many: invalid value `"many"` for `data.workers`: expected `"auto"` or integer >= 0

    --set log.tensorboard=yes: invalid value `"yes"` for `log.tensorboard`: expected `true` or `false`

    8 problems in the configuration
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

#[test]
fn syntax_errors_have_a_place() {
    assert_snapshot!(error_of("seed = 1\n[model\nname = 3\n", &[]), @r#"
    configs/x.toml:2:7: not valid TOML: unclosed table, expected `]`
      |
    2 | [model
      |       ^
    "#);
    assert_snapshot!(error_of("seed = 1\nseed = 2\n", &[]), @r#"
    configs/x.toml:2:1: not valid TOML: duplicate key
      |
    2 | seed = 2
      | ^^^^
    "#);
}

#[test]
fn bad_overrides_are_refused() {
    assert_snapshot!(error_of(SMALL, &["seed", "train..epochs=1", "base=other.toml"]), @r#"
    --set base=other.toml: `base` cannot be set from outside a file
      help: give the file itself instead

    --set seed: no value
      help: expected `KEY=VALUE`, such as `train.epochs=10`

    --set train..epochs=1: empty key
      help: expected `KEY=VALUE`, such as `train.epochs=10`

    3 problems in the configuration
    "#);
}

#[test]
fn a_mistake_in_a_base_is_reported_there() {
    let message = load_error(&[
        ("top.toml", "base = \"base.toml\"\n[train]\nepochs = 1\n"),
        (
            "base.toml",
            "[model]\nname = \"deit_tiny_patch16_224\"\n[data]\npath = \"d\"\n[train]\nbatch_size = 0\nepochs = 0\n",
        ),
    ]);
    assert_snapshot!(message, @r#"
    DIR/base.toml:6:14: invalid value `0` for `train.batch_size`: expected at least 1
      |
    6 | batch_size = 0
      |              ^
    "#);
}

#[test]
fn bases_in_a_circle_are_refused() {
    let message = load_error(&[
        ("a.toml", "base = \"b.toml\"\n"),
        ("b.toml", "seed = 1\nbase = \"a.toml\"\n"),
    ]);
    assert_snapshot!(message, @r#"
    DIR/b.toml:2:8: `base` goes in a circle: `DIR/a.toml` -> `DIR/b.toml` -> `DIR/a.toml`
      |
    2 | base = "a.toml"
      |        ^^^^^^^^
    "#);
}

#[test]
fn a_missing_base_and_a_missing_file_are_named() {
    assert_snapshot!(load_error(&[("a.toml", "base = \"gone.toml\"\n")]), @r#"
    DIR/a.toml:1:8: cannot read the base: failed to open file `DIR/gone.toml`: No such file or directory (os error 2)
      |
    1 | base = "gone.toml"
      |        ^^^^^^^^^^^
      help: `base` is relative to the file that names it
    "#);
    assert_snapshot!(load_error(&[("a.toml", "base = 3\n")]), @r#"
    DIR/a.toml:1:8: invalid value for `base`: expected the path of a file
      |
    1 | base = 3
      |        ^
    "#);
    let error = Document::load(Path::new("gone.toml"), &[]).unwrap_err();
    assert!(matches!(error, ConfigError::Read(_)));
    assert!(error.to_string().contains("gone.toml"));
}

#[test]
fn places_count_characters_not_bytes() {
    let error = plan_of("run = { dir = \"äö\", nme = 1 }", &[]).unwrap_err();
    let ConfigError::Invalid(problems) = error else {
        unreachable!()
    };
    let Place::Span { line, column, .. } = problems[0].place else {
        unreachable!()
    };
    assert_eq!((line, column), (1, 21));
}

#[test]
fn a_resolved_plan_loads_again() {
    for plan in [
        plan_of(SMALL, &[]).unwrap(),
        plan_of(FULL, &[]).unwrap(),
        plan_of(FULL, &["data.kind=folder", "model.attention.neighbors=1.0"]).unwrap(),
    ] {
        assert_eq!(plan_of(&resolved_toml(&plan), &[]).unwrap(), plan);
    }
}

#[test]
fn keys_of_file_plan_and_reference_are_the_same() {
    let plan = plan_of(FULL, &[]).unwrap();
    let mut written: Vec<String> = entries(&plan)
        .into_iter()
        .map(|(key, _)| key.to_owned())
        .collect();
    let mut documented = Vec::new();
    let page = reference();
    for section in sections() {
        for field in &section.fields {
            assert!(!field.doc.is_empty(), "{} {}", section.name, field.name);
            assert!(page.contains(&format!("| `{}` | {} |", field.name, field.expected)));
            documented.push(match section.name.as_str() {
                "" => field.name.clone(),
                name => format!("{name}.{}", field.name),
            });
        }
        assert!(page.contains(&format!("[{}]", section.name)) || section.name.is_empty());
    }
    documented.retain(|key| key != "base");
    written.sort();
    documented.sort();
    assert_eq!(written, documented);
}

#[test]
fn every_key_of_the_full_file_differs_from_its_default() {
    let full = plan_of(FULL, &[]).unwrap();
    let changed: Vec<String> = diff(&plan_of(SMALL, &[]).unwrap(), &full)
        .into_iter()
        .map(|difference| difference.key)
        .collect();
    let same: Vec<&str> = entries(&full)
        .into_iter()
        .map(|(key, _)| key)
        .filter(|key| !changed.iter().any(|other| other == key))
        .collect();
    // `adamw` is the only optimizer, and SMALL is about shapes as well.
    assert_eq!(same, ["data.kind", "optim.name"]);
}

#[test]
fn only_differences_without_effect_are_harmless() {
    let old = plan_of(FULL, &[]).unwrap();
    assert_eq!(diff(&old, &old), []);

    let harmless = [
        "run.dir=x",
        "log.every_steps=1",
        "log.tensorboard=true",
        "checkpoint.every_epochs=1",
        "checkpoint.every_steps=1",
        "data.workers=auto",
        "data.prefetch=1",
        "eval.batch_size=1",
        "train.device=wgpu",
        "train.max_steps=1",
    ];
    let refused = [
        "seed=1",
        "model.depth=1",
        "model.attention.kind=dense",
        "data.path=x",
        "data.shuffle=true",
        "augment.padding=1",
        "optim.lr=1",
        "ema.decay=0",
        "train.epochs=1",
        "train.batch_size=1",
        "train.eval_every=1",
    ];
    for (sets, effect) in [
        (&harmless[..], Effect::Harmless),
        (&refused[..], Effect::Refused),
    ] {
        for set in sets {
            let differences = diff(&old, &plan_of(FULL, &[set]).unwrap());
            assert!(!differences.is_empty(), "{set}");
            for difference in differences {
                assert_eq!(difference.effect, effect, "{set}");
            }
        }
    }

    let new = plan_of(SMALL, &["train.epochs=3"]).unwrap();
    let shown: Vec<String> = diff(&old, &new)
        .iter()
        .filter(|difference| difference.key.starts_with("train."))
        .map(ToString::to_string)
        .collect();
    assert_snapshot!(shown.join("\n"), @r#"
    `train.accumulate`: `4` -> `1`
    `train.batch_size`: `8` -> `64`
    `train.device`: `"cpu"` -> `"auto"`
    `train.epochs`: `2` -> `3`
    `train.eval_every`: `0` -> `1`
    `train.max_steps`: `100` -> not set
    "#);
}

#[test]
fn the_schema_is_closed_and_knows_no_null() {
    let schema: serde_json::Value = serde_json::from_str(&schema()).unwrap();
    assert_eq!(schema["additionalProperties"], false);
    let knn = &schema["properties"]["model"]["properties"]["attention"]["properties"];
    assert_eq!(knn["neighbors"]["default"], 0.5);
    assert!(!schema.to_string().contains("null"));
}

#[test]
fn the_reference_shows_type_default_and_meaning() {
    let page = reference();
    let lines: Vec<&str> = page
        .lines()
        .filter(|line| {
            [
                "depth",
                "kind",
                "neighbors",
                "workers",
                "betas",
                "scale",
                "max_steps",
                "hflip",
                "seed",
            ]
            .iter()
            .any(|key| line.starts_with(&format!("| `{key}`")))
        })
        .collect();
    assert_snapshot!(lines.join("\n"), @r#"
    | `seed` | integer >= 0 | `0` | Seed of everything random: initial weights, order of the images, augmentation, dropout. |
    | `hflip` | float | `0.5`, with none `0.0` | Probability of a horizontal flip, in [0, 1]. |
    | `scale` | list of 2 x float | `[0.08, 1.0]` | Smallest and largest area of the random resized crop as a share of the image, in (0, 1]; only imagenet. |
    | `kind` | `"folder"` or `"shapes"` | `"folder"` | An image folder, or generated shapes. |
    | `workers` | `"auto"` or integer >= 0 | `"auto"` | Threads that decode and augment; `"auto"` is the number of cores, at most 8, and 0 works on the training thread. The result does not depend on it. |
    | `seed` | integer >= 0 | `0` | Seed of the images, independent of the run's seed. |
    | `depth` | integer >= 0 or list of (integer >= 0) | the model's own | Number of transformer blocks: one number, or a list with one per stage of the model. |
    | `kind` | `"dense"` or `"knn"` | `"dense"` | Dense attention, or k-NN attention, in which each query keeps only its k best keys. |
    | `neighbors` | integer or float or list of (integer or float) | `0.5` | How many keys a query keeps: an integer is a count, a float in (0, 1] a share of the keys; or a list with one entry per stage of the model. Dense attention has no use for it. |
    | `betas` | list of 2 x float | `[0.9, 0.999]` | Decay of the first and second moment, each in [0, 1). |
    | `kind` | `"cosine"` or `"constant"` | `"cosine"` | Shape of the learning rate after the warm-up. |
    | `max_steps` | integer >= 0 | none: all epochs | Ends the run after this many updates, wherever that is. |
    "#);
}
