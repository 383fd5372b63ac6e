//! Runs with mixed images, repeated augmentation and a teacher.

use kvt_models::weights::{StateDict, read, write};
use kvt_train::run::Event;

use crate::support::{Workspace, assert_each_close, floats, steps};

/// Every source of randomness: mixing of either kind, repeats for two replicas, a random crop, drop path. 36 images are 18 per
/// replica, in batches of 4: 8 micro-batches, 4 updates.
const MIXED: &str = r#"base = "tiny.toml"

[model]
drop_path = 0.1

[data]
repeats = 2
replicas = 2

[augment]
preset = "cifar"
padding = 2

[mix]
mixup = 0.8
cutmix = 1.0
prob = 0.9
mode = "elem"
off_epoch = 2

[train]
epochs = 3
batch_size = 4
accumulate = 2

[checkpoint]
every_epochs = 0
"#;

const EPOCH: u64 = 4;

/// A teacher, trained briefly, and the configuration of its students.
fn workspace() -> Workspace {
    let workspace = Workspace::with_data(12, 2);
    workspace.write("mixed.toml", MIXED);
    train(&workspace, "tiny.toml", "teacher", &["train.epochs=1"]);
    workspace
}

fn arguments(config: &str, run: &str, sets: &[&str]) -> Vec<String> {
    let mut arguments = vec!["train".to_owned(), config.to_owned()];
    let run = format!("run.dir={run}");
    for set in sets.iter().chain([&run.as_str()]) {
        arguments.extend(["--set".to_owned(), (*set).to_owned()]);
    }
    arguments
}

fn train(workspace: &Workspace, config: &str, run: &str, sets: &[&str]) {
    let arguments = arguments(config, run, sets);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    workspace.kvt(&arguments).assert().success();
}

fn resume(workspace: &Workspace, config: &str, run: &str, sets: &[&str]) {
    let mut arguments = arguments(config, run, sets);
    arguments.push("--resume".to_owned());
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    workspace.kvt(&arguments).assert().success();
}

fn error(workspace: &Workspace, config: &str, run: &str, sets: &[&str]) -> String {
    let arguments = arguments(config, run, sets);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    workspace.error(&arguments)
}

fn losses(workspace: &Workspace, run: &str) -> Vec<f64> {
    let events = workspace.log(run);
    steps(&events).iter().map(|step| step.loss).collect()
}

fn notes(workspace: &Workspace, run: &str) -> String {
    let notes = workspace
        .log(run)
        .into_iter()
        .filter_map(|event| match event {
            Event::Note(note) => Some(note.message),
            _ => None,
        });
    notes.collect::<Vec<_>>().join("\n")
}

/// Weights and moments of the last checkpoint.
fn state(workspace: &Workspace, run: &str) -> [Vec<u8>; 2] {
    let checkpoint = workspace.last_checkpoint(run);
    ["model.safetensors", "optimizer.safetensors"]
        .map(|file| fs_err::read(checkpoint.join(file)).unwrap())
}

#[test]
fn a_resume_in_the_middle_of_an_epoch_changes_nothing() {
    let workspace = workspace();
    let soft = ["distill.kind=soft", "distill.teacher=teacher"];
    let with = |set: &'static str| [&soft[..], &[set]].concat();
    train(&workspace, "mixed.toml", "whole", &with("data.workers=2"));
    // In the first epoch, and in the last one, which is not mixed.
    for step in [EPOCH - 1, 2 * EPOCH + 1] {
        let run = format!("cut{step}");
        let max_steps = format!("train.max_steps={step}");
        let sets = [&soft[..], &[&max_steps]].concat();
        train(&workspace, "mixed.toml", &run, &sets);
        assert_eq!(losses(&workspace, &run).len() as u64, step);
        resume(&workspace, "mixed.toml", &run, &soft);
        assert_eq!(losses(&workspace, &run), losses(&workspace, "whole"));
        assert!(
            state(&workspace, &run) == state(&workspace, "whole"),
            "{step}"
        );
    }
    assert_eq!(losses(&workspace, "whole").len() as u64, 3 * EPOCH);
    assert!(
        notes(&workspace, "whole").contains("learns from"),
        "{}",
        notes(&workspace, "whole")
    );

    // Each part affects the result.
    for set in [
        "mix.cutmix=0",
        "mix.off_epoch=1",
        "data.repeats=1",
        "distill.alpha=0.25",
        "distill.temperature=2",
        "loss.kind=bce",
    ] {
        train(&workspace, "mixed.toml", "other", &with(set));
        assert_ne!(
            losses(&workspace, "other"),
            losses(&workspace, "whole"),
            "{set}"
        );
        fs_err::remove_dir_all(workspace.path("other")).unwrap();
    }
}

#[test]
fn another_teacher_is_refused() {
    let workspace = workspace();
    let sets = ["distill.kind=soft", "distill.teacher=teacher"];
    let first = [&sets[..], &["train.max_steps=2"]].concat();
    train(&workspace, "mixed.toml", "run", &first);
    // The same weights in another folder are the same teacher.
    fs_err::rename(workspace.path("teacher"), workspace.path("moved")).unwrap();
    let moved = [
        "distill.kind=soft",
        "distill.teacher=moved",
        "train.max_steps=3",
    ];
    resume(&workspace, "mixed.toml", "run", &moved);
    train(
        &workspace,
        "tiny.toml",
        "teacher",
        &["train.epochs=1", "seed=4"],
    );
    let mut arguments = arguments("mixed.toml", "run", &sets);
    arguments.push("--resume".to_owned());
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    insta::assert_snapshot!(workspace.error(&arguments), @"error: `teacher` is not the teacher that the run was started with: restore it, or use another `run.dir` to start a new run");
}

/// Runs on a folder of classes and on shards have logits, too.
#[test]
fn logits_of_a_split_wherever_the_images_lie() {
    let workspace = workspace();
    let pack = ["data", "pack", "data", "packed"];
    workspace.kvt(&pack).assert().success();
    let shards = ["data.kind=tar", "data.path=packed", "train.max_steps=1"];
    train(&workspace, "tiny.toml", "shards", &shards);
    let share = [
        "data.path=data/train",
        "data.val_fraction=0.25",
        "train.max_steps=1",
    ];
    train(&workspace, "tiny.toml", "share", &share);
    for (run, images) in [("shards", 36), ("share", 27)] {
        let logits = ["logits", "--run", run, "--output", "l.safetensors"];
        workspace.kvt(&logits).assert().success();
        let file = read(&workspace.path("l.safetensors")).unwrap();
        assert_eq!(file.get("logits").unwrap().shape().to_vec(), [images, 3]);
    }
}

/// The teacher is the model that its run reports.
#[test]
fn an_average_that_is_reported_teaches() {
    let workspace = workspace();
    let average = ["ema.decay=0.9", "ema.report=ema", "train.epochs=1"];
    train(&workspace, "tiny.toml", "average", &average);
    let logits = |more: &[&str]| {
        let arguments = ["logits", "--run", "average", "--output", "l.safetensors"];
        workspace
            .kvt(&[&arguments[..], more].concat())
            .assert()
            .success();
        floats(&read(&workspace.path("l.safetensors")).unwrap(), "logits")
    };
    let reported = logits(&[]);
    assert_eq!(reported, logits(&["--ema"]));
    let distill = |teacher: &[&str], run: &str| {
        let sets = [&["distill.kind=soft", "train.max_steps=2"], teacher].concat();
        train(&workspace, "tiny.toml", run, &sets);
        losses(&workspace, run)
    };
    let live = distill(&["distill.teacher=average"], "live");
    let saved = distill(&["distill.logits=l.safetensors"], "saved");
    assert_each_close("loss", &saved, &live, 1e-5);
}

/// For unchanged images a teacher's logits are always the same.
#[test]
fn saved_logits_teach_as_their_teacher() {
    let workspace = workspace();
    workspace
        .kvt(&["logits", "--run", "teacher", "--output", "t.safetensors"])
        .assert()
        .success();
    let weights = workspace
        .last_checkpoint("teacher")
        .join("model.safetensors");
    let kept = fs_err::read(&weights).unwrap();
    let onto = weights.to_str().unwrap();
    let refused = workspace.error(&["logits", "--run", "teacher", "--output", onto]);
    assert!(refused.contains("is read by this command"), "{refused}");
    assert!(fs_err::read(&weights).unwrap() == kept);
    let file = read(&workspace.path("t.safetensors")).unwrap();
    assert_eq!(file.get("logits").unwrap().shape().to_vec(), [36, 3]);
    let single = floats(&file, "logits");
    let half = [
        "logits",
        "--run",
        "teacher",
        "--half",
        "--output",
        "h.safetensors",
    ];
    workspace.kvt(&half).assert().success();
    let half = floats(&read(&workspace.path("h.safetensors")).unwrap(), "logits");
    for (half, single) in half.iter().zip(&single) {
        assert!((half - single).abs() <= 1e-3 * single.abs().max(1e-2));
    }

    let live = [
        "distill.kind=soft",
        "distill.teacher=teacher",
        "distill.alpha=0.9",
    ];
    let saved = [
        "distill.kind=soft",
        "distill.logits=t.safetensors",
        "distill.alpha=0.9",
    ];
    train(&workspace, "tiny.toml", "live", &live);
    train(&workspace, "tiny.toml", "saved", &saved);
    let (live, found) = (losses(&workspace, "live"), losses(&workspace, "saved"));
    assert_each_close("loss", &found, &live, 1e-5);
    let plain = ["distill.kind=none"];
    train(&workspace, "tiny.toml", "plain", &plain);
    assert_ne!(losses(&workspace, "plain"), live);
    let notes = notes(&workspace, "saved");
    assert!(
        notes.contains("of unchanged images: nothing is mixed"),
        "{notes}"
    );

    // A different order of rows is detected by the labels, and fewer rows by their number.
    let mut other = StateDict::default();
    let rotated: Vec<f32> = single.iter().copied().cycle().skip(3).take(108).collect();
    other.insert("logits", burn::tensor::TensorData::new(rotated, [36, 3]));
    let labels: Vec<i64> = (0..36).map(|n| (n + 1) % 36 / 12).collect();
    other.insert("labels", burn::tensor::TensorData::new(labels, [36]));
    write(
        &workspace.path("other.safetensors"),
        &other,
        &Default::default(),
    )
    .unwrap();
    let sets = ["distill.kind=soft", "distill.logits=other.safetensors"];
    insta::assert_snapshot!(error(&workspace, "tiny.toml", "run", &sets), @"error: `other.safetensors` cannot teach this model: its image 11 has label 1, but that of the data has 0: the logits are of other images, or of another order");
    workspace.images("data/train/c", 13);
    let sets = ["distill.kind=soft", "distill.logits=t.safetensors"];
    insta::assert_snapshot!(error(&workspace, "tiny.toml", "run", &sets), @"error: `t.safetensors` cannot teach this model: its `logits` have shape [36, 3], but the data wants [37, 3], training images and classes");
    assert!(
        !workspace.path("run").exists(),
        "refused before there is a folder"
    );
}

const DISTILLED: &str = "model.name=deit_tiny_distilled_patch16_224";

/// Without a teacher the class head can learn alone; with one, the other head learns from it.
#[test]
fn heads_of_a_distilled_model() {
    let workspace = workspace();
    let weights = |run: &str| read(&workspace.last_checkpoint(run).join("model.safetensors"));
    let start = ["train.max_steps=1", "optim.lr=1e-12", DISTILLED];
    train(&workspace, "tiny.toml", "start", &start);
    let start = weights("start").unwrap();
    let moved = |run: &str, name: &str| {
        let found = floats(&weights(run).unwrap(), name);
        let pairs = found.iter().zip(floats(&start, name));
        let far = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        far > 1e-5
    };
    for (run, sets, distillation) in [
        ("mean", &["loss.heads=mean"][..], true),
        ("class", &["loss.heads=class"], false),
        (
            "hard",
            &[
                "distill.kind=hard",
                "distill.teacher=teacher",
                "loss.heads=class",
            ],
            true,
        ),
    ] {
        let sets = [sets, &["train.max_steps=3", DISTILLED]].concat();
        train(&workspace, "tiny.toml", run, &sets);
        assert!(moved(run, "head.weight"), "{run}");
        assert_eq!(moved(run, "head_dist.weight"), distillation, "{run}");
    }
}

#[test]
fn teachers_that_do_not_fit() {
    let workspace = workspace();
    let teacher = |path: &str| format!("distill.teacher={path}");
    let refused = |sets: &[&str]| error(&workspace, "tiny.toml", "run", sets);
    let soft = "distill.kind=soft";
    insta::assert_snapshot!(refused(&["distill.kind=hard", &teacher("teacher")]), @r#"error: `teacher` cannot teach this model: `distill.kind = "hard"` is learned by a distillation head, which `deit_16x2_patch4_16` lacks: use a model whose name has `distilled`, or `distill.kind = "soft"`"#);
    insta::assert_snapshot!(refused(&[soft, &teacher("nowhere")]), @"error: `nowhere` holds no run: it has no `config.toml`");
    // A file of weights for another model.
    let weights = workspace
        .last_checkpoint("teacher")
        .join("model.safetensors");
    fs_err::copy(weights, workspace.path("w.safetensors")).unwrap();
    let named = "distill.teacher_model=deit_tiny_patch16_224";
    let message = refused(&[soft, &teacher("w.safetensors"), named]);
    assert!(
        message.starts_with(
            "error: could not load the teacher `w.safetensors` into `distill.teacher_model`"
        ),
        "{message}"
    );
    // One more class, and a renamed class.
    workspace.images("data/train/d", 4);
    workspace.images("data/val/d", 1);
    insta::assert_snapshot!(refused(&[soft, &teacher("teacher")]), @"error: `teacher` cannot teach this model: it has 3 classes, but the data has 4");
    for split in ["train", "val"] {
        fs_err::remove_dir_all(workspace.path(&format!("data/{split}/c"))).unwrap();
    }
    insta::assert_snapshot!(refused(&[soft, &teacher("teacher")]), @"error: `teacher` cannot teach this model: its class 2 is `c`, but the data's is `d`");
    assert!(
        !workspace.path("run").exists(),
        "refused before there is a folder"
    );
}

/// Rows have no names, so a file of logits says which classes and images they are for.
#[test]
fn saved_logits_of_other_classes_or_images_are_refused() {
    let workspace = Workspace::empty();
    // Three of the names have another order by value than by bytes; all labels occur equally often.
    for class in ["1", "2", "10"] {
        workspace.images(&format!("data/train/{class}"), 4);
        workspace.images(&format!("data/val/{class}"), 1);
    }
    train(&workspace, "tiny.toml", "teacher", &["train.epochs=1"]);
    let logits = ["logits", "--run", "teacher", "--output", "t.safetensors"];
    workspace.kvt(&logits).assert().success();
    let saved = ["distill.kind=soft", "distill.logits=t.safetensors"];
    let refused = |more: &[&str]| {
        let sets = [&saved[..], more].concat();
        error(&workspace, "tiny.toml", "run", &sets)
    };
    insta::assert_snapshot!(refused(&["data.class_order=natural"]), @"error: `t.safetensors` cannot teach this model: its class 1 is `10`, but the data's is `2`");
    // The folder may be moved, but not an image in it be renamed.
    fs_err::rename(workspace.path("data"), workspace.path("moved")).unwrap();
    let moved = "data.path=moved";
    let [old, new] =
        ["000", "zebra"].map(|name| workspace.path(&format!("moved/train/2/{name}.png")));
    fs_err::rename(&old, &new).unwrap();
    insta::assert_snapshot!(refused(&[moved]), @"error: `t.safetensors` cannot teach this model: its logits are of images of other names, or in another order, than those of the data: make them again with `kvt logits --run RUN --set data.path=DATA`");
    fs_err::rename(&new, &old).unwrap();
    let short = [&saved[..], &[moved, "train.epochs=1"]].concat();
    train(&workspace, "tiny.toml", "student", &short);
    assert!(!notes(&workspace, "student").contains("does not say"));
    // A file of another program says nothing: it is taken by row, with a warning.
    let file = read(&workspace.path("t.safetensors")).unwrap();
    let path = workspace.path("t.safetensors");
    kvt_models::weights::write(&path, &file, &Default::default()).unwrap();
    train(&workspace, "tiny.toml", "other", &short);
    let notes = notes(&workspace, "other");
    assert!(
        notes.contains("`t.safetensors` does not say which images and classes its logits are for"),
        "{notes}"
    );
}

/// A teacher with another size and normalisation gets its own preprocessing: for a constant grey image, which resizing does not
/// change, its logits are the same as in its own run.
#[test]
fn a_teacher_has_its_own_size_and_normalisation() {
    let workspace = Workspace::with_data(4, 2);
    let own = [
        "train.epochs=1",
        "model.img_size=24",
        "augment.mean=[0.5, 0.5, 0.5]",
        "augment.std=[0.25, 0.25, 0.25]",
    ];
    let grey = |x: u8| image::RgbImage::from_pixel(16, 16, image::Rgb([x, 255 - x, x / 2]));
    for (class, level) in [("a", 40), ("b", 130), ("c", 220)] {
        for number in 0..4 {
            let file = format!("data/train/{class}/{number:03}.png");
            crate::support::save(&workspace.path(&file), &grey(level + number));
        }
    }
    train(&workspace, "tiny.toml", "teacher", &own);
    workspace
        .kvt(&["logits", "--run", "teacher", "--output", "t.safetensors"])
        .assert()
        .success();
    for (run, teacher) in [
        ("live", "distill.teacher=teacher"),
        ("saved", "distill.logits=t.safetensors"),
    ] {
        let sets = ["distill.kind=soft", "distill.alpha=1.0", teacher];
        train(&workspace, "tiny.toml", run, &sets);
    }
    let (live, saved) = (losses(&workspace, "live"), losses(&workspace, "saved"));
    assert_eq!(live.len(), saved.len());
    for (live, saved) in live.iter().zip(&saved) {
        assert!((live - saved).abs() < 1e-5, "{live}, not {saved}");
    }
    let notes = notes(&workspace, "live");
    assert!(notes.contains("at 24 pixels"), "{notes}");
}

/// Micro-batches of odd size are mixed, too.
#[test]
fn an_odd_last_batch_trains() {
    let workspace = Workspace::with_data(3, 1);
    for mode in ["batch", "pair", "elem"] {
        let mode = format!("mix.mode={mode}");
        for order in ["mix.order=erase-mix", "mix.order=mix-erase"] {
            let sets = [
                "mix.mixup=0.5",
                "mix.cutmix=0.5",
                "data.drop_last=false",
                "train.batch_size=4",
                &mode,
                order,
            ];
            workspace.train("run", &sets);
            fs_err::remove_dir_all(workspace.path("run")).unwrap();
        }
    }
}

/// An epoch of 36 images has 36 places for any number of repeats, with a third of the images.
#[test]
fn repeats_do_not_make_an_epoch_longer() {
    let workspace = Workspace::with_data(12, 2);
    let events = workspace.train("run", &["data.repeats=3", "train.epochs=1"]);
    assert_eq!(steps(&events).len(), 6);
    let events = workspace.train(
        "deals",
        &[
            "data.repeats=3",
            "data.replicas=2",
            "train.accumulate=4",
            "train.epochs=2",
        ],
    );
    // 18 places per replica are 3 micro-batches: 6 in total, so 2 updates, the second with 2 micro-batches.
    let epochs: Vec<u32> = steps(&events).iter().map(|step| step.epoch).collect();
    assert_eq!(epochs, [0, 0, 1, 1]);
    let message = workspace.error(&[
        "train",
        "tiny.toml",
        "--set",
        "data.repeats=3",
        "--set",
        "data.replicas=2",
    ]);
    insta::assert_snapshot!(message, @"error: --set data.replicas=2: invalid value `2` for `data.replicas`: expected a divisor of `train.accumulate`, 1");
}

/// With `mix-erase` the loader does not erase images; the device erases them, from keys. The same run twice is the same, and
/// differs from one without erasing, and from the other order.
#[test]
fn erasing_follows_mixing() {
    let workspace = Workspace::with_data(6, 2);
    let base = ["mix.mixup=0.8", "mix.cutmix=1.0", "mix.mode=elem"];
    let losses_of = |run: &str, sets: &[&str]| {
        train(&workspace, "tiny.toml", run, &[&base[..], sets].concat());
        losses(&workspace, run)
    };
    let erased = ["augment.erase=1.0", "mix.order=mix-erase"];
    let first = losses_of("first", &erased);
    assert_eq!(losses_of("second", &erased), first);
    assert_ne!(losses_of("before", &["augment.erase=1.0"]), first);
    assert_ne!(losses_of("none", &["mix.order=mix-erase"]), first);
    // Even in epochs without mixing.
    let off = ["mix.off_epoch=1"];
    let erased = losses_of("off", &[&erased[..], &off].concat());
    let whole = losses_of("whole", &[&["mix.order=mix-erase"][..], &off].concat());
    assert_eq!(erased.len(), whole.len());
    assert!(erased.iter().zip(&whole).all(|(a, b)| a != b));
}
