//! The sources of a plan's values: defaults, presets, bases, overrides.

use kvt_attention::{AttentionConfig, Implementation, KnnConfig, Neighbors, Selection};

use super::*;
use crate::config::reference::{join, sections};
use crate::recipe::{Clip, EmaReport, ScheduleCounts};

#[test]
fn defaults_are_those_of_the_deit_recipe() {
    let plan = plan_of(SMALL, &[]).unwrap();
    assert_snapshot!(resolved_toml(&plan).unwrap(), @r#"
    seed = 0
    task = "classify"

    [model]
    name = "deit_tiny_patch16_224"
    drop_path = 0.0
    attn_drop = 0.0

    [model.attention]
    kind = "dense"
    temperature = 1.0

    [init]
    reset_head = false
    reset_mixer = false
    freeze = "none"

    [lora]
    rank = 0
    alpha = 16.0
    layers = ["attn"]

    [data]
    kind = "shapes"
    path = "data/shapes"
    train = "train"
    val = "val"
    val_fraction = 0.0
    subset = 0
    labels = ""
    label_column = "label"
    images = "images"
    masks = "masks"
    image_suffix = ""
    mask_suffix = ""
    list = ""
    zero = "class"
    ignore = 255
    map = []
    train_annotations = ""
    val_annotations = ""
    group_orientation = true
    class_order = "byte"
    shuffle = true
    drop_last = true
    balance = "none"
    repeats = 1
    replicas = 1
    workers = "auto"
    prefetch = 4
    cache = 0
    decode = "exact"
    on_error = "fail"
    max_skipped = 100
    max_pixels = 178956970
    check_sizes = true

    [data.shapes]
    layout = "folder"
    image_size = 32
    classes = 10
    train_per_class = 500
    val_per_class = 100
    clutter = 0.5
    occlusion = 0.3
    objects = [1, 2]
    radius = [0.18, 0.32]
    seed = 0

    [dense]
    scale = [2048, 512]
    ratio = [0.5, 2.0]
    crop = [512, 512]
    cat_max_ratio = 0.75
    hflip = 0.5
    photometric = true

    [multiscale]
    sizes = [480, 512, 544, 576, 608, 640, 672, 704, 736, 768, 800]
    max = 1333
    crop_before = true
    hflip = 0.5

    [augment]
    preset = "imagenet"
    scale = [0.08, 1.0]
    ratio = [0.75, 1.3333333333333333]
    hflip = 0.5
    padding = 4
    vflip = 0.0
    auto = ""
    color_jitter = 0.0
    interpolation = "bicubic"
    mean = [0.485, 0.456, 0.406]
    std = [0.229, 0.224, 0.225]
    crop_pct = 0.875
    crop_mode = "center"
    erase = 0.0
    erase_mode = "pixel"
    erase_count = 1

    [mix]
    mixup = 0.0
    cutmix = 0.0
    mix_token = 0.0
    prob = 1.0
    switch_prob = 0.5
    mode = "batch"
    order = "erase-mix"
    off_epoch = 0

    [optim]
    name = "adamw"
    lr = 0.0005
    lr_batch = 512
    betas = [0.9, 0.999]
    eps = 0.00000001
    momentum = 0.9
    nesterov = true
    weight_decay = 0.05
    decay = "family"
    layer_decay = 1.0
    clip_norm = 0.0
    clip_value = 0.0
    clip_parameter = 0.0
    clip_agc = 0.0

    [schedule]
    kind = "cosine"
    warmup_epochs = 5.0
    warmup_updates = 0
    warmup_ratio = 0.000001
    warmup_lr = 0.000001
    warmup_prefix = false
    warmup_closed = false
    min_lr = 0.00001
    cooldown_epochs = 0
    step_epochs = 30.0
    step_at = []
    step_rate = 0.1
    power = 0.5
    per = "epoch"
    counts = "finished"

    [loss]
    kind = "cross-entropy"
    token_weight = 0.0
    label_smoothing = 0.1
    class_weights = "none"
    bce_sum = false
    heads = "mean"

    [distill]
    kind = "none"
    alpha = 0.5
    temperature = 1.0
    divisor = "batch"

    [multi_label]
    threshold = 0.5
    thresholds = []

    [dino]
    out_dim = 65536
    head_layers = 3
    hidden_dim = 2048
    bottleneck_dim = 256
    norm_last_layer = true
    freeze_last_layer = 1
    student_temp = 0.1
    teacher_temp = 0.04
    warmup_teacher_temp = 0.04
    warmup_teacher_temp_epochs = 0
    momentum_teacher = 0.996
    center_momentum = 0.9
    global_scale = [0.4, 1.0]
    local_views = 8
    local_size = 96
    local_scale = [0.05, 0.4]
    color_jitter = 0.8
    grayscale = 0.2
    blur = [1.0, 0.1, 0.5]
    blur_radius = [0.1, 2.0]
    solarize = 0.2
    eval_bank = 10000
    eval_images = 2000
    eval_neighbors = 20

    [segment]
    channels = 512
    pool_scales = [1, 2, 3, 6]
    dropout = 0.1
    aux_stage = 3
    aux_channels = 256
    aux_weight = 0.4
    average = "all"
    window_padding = "seen"
    eval = "whole"
    eval_crop = [512, 512]
    eval_stride = [341, 341]

    [detect]
    channels = 256
    hidden = 1024
    window_padding = "seen"
    anchors = 256
    anchors_fraction = 0.5
    regions = 512
    regions_fraction = 0.25
    train_per_level = 2000
    train_proposals = 1000
    test_per_level = 1000
    test_proposals = 1000
    score = 0.05
    iou = 0.5
    detections = 100

    [ema]
    decay = 0.0
    warmup = false
    report = "raw"

    [train]
    epochs = 300
    updates = 0
    batch_size = 64
    accumulate = 1
    device = "auto"
    sync_batch_norm = true
    precision = "f32"
    eval_every = 1
    eval_every_updates = 0

    [eval]
    batch_size = 128

    [analysis]
    every = 0
    images = 2000
    split = "train"

    [log]
    every_steps = 1
    tensorboard = true

    [report]
    auto = true

    [checkpoint]
    every_epochs = 1
    every_steps = 0
    keep_last = 2

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

/// Keys that another key disables have their defaults.
#[test]
fn augmentations_that_do_nothing_have_their_defaults() {
    let of = |sets: &[&str]| plan_of(SMALL, sets).unwrap().augment;
    let jitter = "augment.color_jitter=0.3";
    assert_eq!(of(&[jitter]).color_jitter, 0.3);
    assert_eq!(of(&[jitter, "augment.auto=3a"]).color_jitter, 0.3);
    assert_eq!(of(&[jitter, "augment.auto=rand-m9"]).color_jitter, 0.0);
    let erasing = ["augment.erase_mode=const", "augment.erase_count=3"];
    assert_eq!(of(&erasing), of(&[]));
    assert_eq!(
        of(&[erasing[0], erasing[1], "augment.erase=0.1"]).erase_count,
        3
    );
}

#[test]
fn optimizers_have_their_own_constants() {
    let of = |sets: &[&str]| {
        let optim = plan_of(SMALL, sets).unwrap().optim;
        (optim.betas, optim.eps, optim.momentum)
    };
    assert_eq!(of(&[]), ([0.9, 0.999], 1e-8, 0.9));
    assert_eq!(of(&["optim.name=lion"]), ([0.9, 0.99], 1e-8, 0.9));
    assert_eq!(of(&["optim.name=lamb"]), ([0.9, 0.999], 1e-6, 0.9));
    assert_eq!(of(&["optim.name=muon"]), ([0.9, 0.999], 1e-8, 0.95));
    let set = [
        "optim.name=lion",
        "optim.betas=[0.5, 0.6]",
        "optim.momentum=0.7",
        "optim.eps=1",
    ];
    assert_eq!(of(&set), ([0.5, 0.6], 1.0, 0.7));
}

#[test]
fn epochs_count_what_is_finished_and_updates_what_starts() {
    let of = |sets: &[&str]| plan_of(SMALL, sets).unwrap().schedule.counts;
    let (finished, started) = (ScheduleCounts::Finished, ScheduleCounts::Started);
    assert_eq!(of(&[]), finished);
    assert_eq!(of(&["schedule.per=step"]), started);
    assert_eq!(of(&["schedule.counts=started"]), started);
    assert_eq!(
        of(&["schedule.per=step", "schedule.counts=finished"]),
        finished
    );
}

#[test]
fn gradients_are_clipped_in_one_way() {
    let clip = |sets: &[&str]| plan_of(SMALL, sets).unwrap().optim.clip();
    assert_eq!(clip(&[]), Clip::Off);
    assert_eq!(clip(&["optim.clip_norm=5"]), Clip::Norm(5.0));
    assert_eq!(clip(&["optim.clip_value=0.5"]), Clip::Value(0.5));
    assert_eq!(clip(&["optim.clip_parameter=3"]), Clip::Parameter(3.0));
    assert_eq!(clip(&["optim.clip_agc=0.02"]), Clip::Adaptive(0.02));
    let two = ["optim.clip_norm=5", "optim.clip_agc=0.02"];
    assert_snapshot!(error_of(SMALL, &two), @"--set optim.clip_agc=0.02: invalid value `0.02` for `optim.clip_agc`: expected 0 beside `optim.clip_norm`, since gradients are clipped in one way");
}

#[test]
fn only_an_average_that_is_kept_is_reported() {
    let ema = |sets: &[&str]| plan_of(SMALL, sets).unwrap().ema;
    assert!(ema(&["ema.decay=0.9", "ema.warmup=true"]).warmup);
    assert!(!ema(&["ema.warmup=true"]).warmup, "there is none");
    assert_eq!(
        ema(&["ema.decay=0.9", "ema.report=ema"]).report,
        EmaReport::Ema
    );
    assert_snapshot!(error_of(SMALL, &["ema.report=ema"]), @r#"
    --set ema.report=ema: `ema.report` is "ema", but the run keeps no average
      help: set `ema.decay` above 0, or `report = "raw"`
    "#);
}

#[test]
fn a_cool_down_makes_the_run_longer() {
    let epochs = |sets: &[&str]| plan_of(SMALL, sets).unwrap().epochs().unwrap();
    assert_eq!(epochs(&[]), 300);
    assert_eq!(epochs(&["schedule.cooldown_epochs=10"]), 310);
    let most = ["schedule.cooldown_epochs=10", "train.epochs=4294967295"];
    assert_eq!(epochs(&most), u32::MAX);
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
        plan.model.overrides.attention,
        Some(AttentionConfig::Knn(KnnConfig {
            neighbors: vec![
                Neighbors::count(7).unwrap(),
                Neighbors::fraction(0.5).unwrap()
            ]
            .into(),
            selection: Selection::DotProduct,
            implementation: Implementation::Auto,
            temperature: 1.0,
        }))
    );
    assert_eq!(plan.train.epochs, 9);
    assert_eq!(plan.log.every_steps, 4);
    assert!(plan.log.tensorboard);
}

/// A folder may be called as TOML writes a number, a date or a truth value.
#[test]
fn a_key_that_takes_only_text_takes_any_text() {
    let value = |key: &str, text: &str| {
        let document = Document::of_words("", String::new(), &strings(&[&format!("{key}={text}")]));
        document.unwrap().value(key).cloned().unwrap()
    };
    let is_text =
        |schema: &serde_json::Value| schema["type"] == "string" && schema.get("enum").is_none();
    let keys = sections().iter().flat_map(|section| {
        let fields = section.fields.iter().filter(|field| is_text(&field.schema));
        fields.map(|field| join(&section.name, &field.name))
    });
    let keys: Vec<String> = keys.filter(|key| key != "base").collect();
    assert!(
        keys.iter().any(|key| key == "run.dir") && keys.len() > 10,
        "{keys:?}"
    );
    for key in &keys {
        for text in [
            "2024-11-25",
            "2024",
            "1e3",
            "1_000",
            "0x1f",
            "-0.5",
            "true",
            "12:30:00",
            "nan",
            "inf",
            "[1, 2]",
            "{ a = 1 }",
        ] {
            assert_eq!(value(key, text).as_str(), Some(text), "{key}");
            // In quotes, it is TOML's text.
            let quoted = format!("\"{text}\"");
            assert_eq!(value(key, &quoted).as_str(), Some(text), "{key}");
        }
    }
    assert_eq!(value("run.dir", "\"\"").as_str(), Some(""));

    // A key that takes numbers, or words that are not any text, keeps what TOML reads, right or wrong.
    for (key, text, expected) in [
        ("data.workers", "3", toml::Value::Integer(3)),
        ("data.classes", "300", toml::Value::Integer(300)),
        ("init.reset_head", "true", toml::Value::Boolean(true)),
        ("model.attention.neighbors", "1e-1", toml::Value::Float(0.1)),
        ("train.epochs", "nan", toml::Value::Float(f64::NAN)),
        ("optim.name", "2024", toml::Value::Integer(2024)),
    ] {
        assert_eq!(value(key, text).to_string(), expected.to_string(), "{key}");
    }
    assert_eq!(
        value("data.classes", "2024-11-25").as_str(),
        Some("2024-11-25")
    );
    assert_snapshot!(error_of(SMALL, &["data.classes=300"]), @"--set data.classes=300: invalid value `300` for `data.classes`: expected an integer in [1, 255] or a string");
}

#[test]
fn dense_attention_ignores_the_keys_of_knn_only_if_it_is_asked_for() {
    let text = format!("{SMALL}[model.attention]\nkind = \"knn\"\nneighbors = 3\n");
    let off = plan_of(&text, &["model.attention.kind=dense"]).unwrap();
    assert_eq!(off, plan_of(SMALL, &[]).unwrap());
    let text = format!("{SMALL}[model.attention]\nneighbors = 3\n");
    assert_snapshot!(error_of(&text, &["model.attention.selection=euclidean"]), @r#"
    configs/x.toml:6:13: `neighbors` is set, but no attention kind is set
      |
    6 | neighbors = 3
      |             ^
      help: add `kind = "knn"` under `[model.attention]`, or "dense"

    --set model.attention.selection=euclidean: `selection` is set, but no attention kind is set
      help: add `kind = "knn"` under `[model.attention]`, or "dense"

    2 problems in the configuration
    "#);
}

#[test]
fn keys_of_another_kind_of_attention_are_refused_by_name() {
    let text =
        format!("{SMALL}[model.attention]\nkind = \"dense\"\nneighbors = 3\ntemperature = 2.0\n");
    assert_snapshot!(error_of(&text, &[]), @r#"
    configs/x.toml:7:13: `neighbors` does not apply to `kind = "dense"`: its keys are `temperature`
      |
    7 | neighbors = 3
      |             ^
      help: leave it out, or choose a kind that has it: knn
    "#);
    let set = [
        "model.attention.kind=dense",
        "model.attention.selection=euclidean",
    ];
    assert_snapshot!(error_of(SMALL, &set), @r#"
    --set model.attention.selection=euclidean: `selection` does not apply to `kind = "dense"`: its keys are `temperature`
      help: leave it out, or choose a kind that has it: knn
    "#);
    // If the kind is wrong, the keys that belong to it are unknown.
    let wrong = error_of(
        SMALL,
        &["model.attention.kind=kn", "model.attention.neighbors=3"],
    );
    assert!(!wrong.contains("apply"), "{wrong}");
}

/// The settings of a base for its kind are disabled by a file or an override that changes the kind, and only then.
#[test]
fn a_later_layer_that_changes_the_kind_switches_off_the_keys_of_the_old_one() {
    let knn = "[model]\nname = \"deit_tiny_patch16_224\"\n[data]\nkind = \"shapes\"\n[model.attention]\nkind = \"knn\"\nneighbors = 3\n";
    let with = |top: &str| {
        load(&[
            ("top.toml", &format!("base = \"knn.toml\"\n{top}")),
            ("knn.toml", knn),
        ])
        .1
    };
    let dense = with("[model.attention]\nkind = \"dense\"\n").unwrap();
    assert_eq!(dense.model, plan_of(SMALL, &[]).unwrap().model);
    let both = with("[model.attention]\nkind = \"dense\"\nneighbors = 4\n");
    let message = both.unwrap_err().to_string();
    assert!(
        message.contains("top.toml:4:13: `neighbors` does not apply"),
        "{message}"
    );
    // A key by itself does not choose a kind.
    let dense = knn.replace("kind = \"knn\"\nneighbors = 3", "kind = \"dense\"");
    let key = load(&[
        (
            "top.toml",
            "base = \"dense.toml\"\n[model.attention]\nneighbors = 4\n",
        ),
        ("dense.toml", &dense),
    ]);
    assert!(key.1.is_err());
}

/// `kvt compare dense.toml knn.toml --set model.attention.neighbors=0.25`.
#[test]
fn overrides_for_several_documents_may_be_for_other_kinds() {
    let text = format!("{SMALL}[model.attention]\nkind = \"dense\"\n");
    let document = |text: &str, sets: &[&str]| {
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        Document::from_text(Path::new("x.toml"), text.to_owned(), &sets).unwrap()
    };
    let set = ["model.attention.neighbors=0.25"];
    assert!(document(&text, &set).plan().is_err());
    let shared = document(&text, &set).shared().plan().unwrap();
    assert_eq!(shared.model, plan_of(SMALL, &[]).unwrap().model);
    // `kvt bench step` sets the kinds in turn.
    let turn = [
        "model.attention.neighbors=0.25",
        "model.attention.kind=dense",
    ];
    assert!(document(SMALL, &turn).shared().plan().is_ok());
    // The keys of a file must match its own kind.
    let file = format!("{text}neighbors = 3\n");
    assert!(document(&file, &set).shared().plan().is_ok());
    assert!(document(&file, &[]).shared().plan().is_err());
    // Dense attention does not need to be named, as in `configs/quickstart/dense.toml`.
    assert_eq!(
        document(SMALL, &set).shared().plan().unwrap(),
        document(SMALL, &[]).plan().unwrap()
    );
    assert!(document(SMALL, &set).plan().is_err());
}

#[test]
fn what_another_key_switches_off_makes_no_difference() {
    let folder = ["data.kind=folder", "data.path=d"];
    let plain = plan_of(SMALL, &folder).unwrap();
    for set in [
        "init.reset_head=true",
        "init.reset_mixer=true",
        "data.max_skipped=7",
        "data.shapes.classes=3",
    ] {
        let plan = plan_of(SMALL, &[folder[0], folder[1], set]).unwrap();
        assert_eq!(plan, plain, "{set}");
    }
}

#[test]
fn only_the_model_can_be_asked_for() {
    let text = "[model]\nname = \"deit_tiny_patch16_224\"\ndepth = 2\n".to_owned();
    let document = Document::from_text(Path::new("x.toml"), text, &[]).unwrap();
    assert!(document.plan().is_err());
    let plan = document.plan_without_data().unwrap();
    assert_eq!(plan.model.overrides.depth, Some(2.into()));
}

#[test]
fn an_override_is_one_value() {
    let lines = error_of(SMALL, &["train.epochs=3\ntrain.batch_size=7"]);
    assert!(
        lines.starts_with("--set train.epochs=3\ntrain.batch_size=7: the value has several lines"),
        "{lines}"
    );
    assert!(
        lines.contains("use a separate `--set` for each key"),
        "{lines}"
    );
    for set in ["run.dir=a\nb", "run.dir=a\rb", "seed=1\n[train]\nepochs=3"] {
        let message = error_of(SMALL, &[set]);
        assert!(message.contains("several lines"), "{set:?}: {message}");
    }
    // A list over several lines is still one value, and so is a string with an escaped newline.
    let plan = plan_of(SMALL, &["optim.betas=[0.8,\n 0.9]", "run.dir=\"a\\nb\""]).unwrap();
    assert_eq!(plan.optim.betas, [0.8, 0.9]);
    assert_eq!(plan.run.dir, Path::new("a\nb"));
    // Text after a number makes it a string.
    for set in ["train.epochs=3 4", "train.epochs=3, train.batch_size=7"] {
        let message = error_of(SMALL, &[set]);
        assert!(message.contains("expected an integer"), "{set}: {message}");
    }
}

#[test]
fn a_key_of_a_hundred_thousand_parts() {
    let set = format!("{}a=1", "a.".repeat(100_000));
    let message = error_of(SMALL, &[&set]);
    assert!(message.contains("the key has too many parts"));
    let text = format!("{SMALL}[x]\n{set}\n");
    assert!(error_of(&text, &[]).contains("not valid TOML"));
    let text = format!("{SMALL}[x]\na = {}\n", "[".repeat(100_000));
    assert!(error_of(&text, &[]).contains("not valid TOML"));
}

/// Without it the run would have other labels than its author thinks.
#[test]
fn a_table_of_labels_that_is_not_read_is_refused_by_name() {
    let text = |kind: &str| {
        format!(
            "[model]\nname = \"deit_tiny_patch16_224\"\n[data]\nkind = \"{kind}\"\npath = \"x\"\nlabels = \"labels.csv\"\n"
        )
    };
    assert_snapshot!(error_of(&text("tar"), &[]), @r#"
    configs/x.toml:6:10: `data.labels` does not apply to `data.kind = "tar"`, which has its labels elsewhere
      |
    6 | labels = "labels.csv"
      |          ^^^^^^^^^^^^
      help: leave it out, or leave `data.kind` out: a table is for images in folders
    "#);
    for kind in ["parquet", "cifar", "shapes"] {
        let error = error_of(&text(kind), &[]);
        assert!(error.contains("`data.labels` does not apply"), "{error}");
    }
    let without = text("tar").replace("labels = \"labels.csv\"\n", "");
    let error = error_of(&without, &["data.labels=labels.csv"]);
    assert!(error.contains("`data.labels` does not apply"), "{error}");
    assert_eq!(
        plan_of(&text("folder"), &[]).unwrap().data.labels,
        "labels.csv"
    );
    assert_eq!(
        plan_of(&text("tar"), &["data.labels="])
            .unwrap()
            .data
            .labels,
        ""
    );
    // Whoever chooses another kind later does not want it.
    let other = plan_of(&text("folder"), &["data.kind=tar"]).unwrap();
    assert_eq!(other, plan_of(&without, &[]).unwrap());
}
