//! User errors get a message that says what to do, and leave nothing half-made behind.

use kvt_train::run::{Event, Topic};
use serde_json::Value;

use crate::support::{KVT, Workspace, read_weights};

/// `kvt train tiny.toml` with overrides.
fn train(workspace: &Workspace, overrides: &[&str]) -> String {
    let mut arguments = vec!["train", "tiny.toml"];
    arguments.extend(overrides.iter().flat_map(|&text| ["--set", text]));
    workspace.error(&arguments)
}

/// Data with one file that is not an image.
fn corrupt() -> Workspace {
    let workspace = Workspace::with_data(6, 2);
    workspace.write("data/train/b/bad.png", "no image");
    workspace
}

#[test]
fn an_unknown_key() {
    let workspace = Workspace::empty();
    workspace.write(
        "typo.toml",
        "base = \"tiny.toml\"\n\n[model.attention]\nneighbours = 4\n",
    );
    insta::assert_snapshot!(workspace.error(&["train", "typo.toml"]), @r"
    error: typo.toml:4:1: unknown key `neighbours` in `[model.attention]`
      |
    4 | neighbours = 4
      | ^^^^^^^^^^
      help: did you mean `neighbors`?
    ");
}

#[test]
fn a_wrong_type() {
    let workspace = Workspace::empty();
    workspace.write(
        "ten.toml",
        "base = \"tiny.toml\"\n\n[train]\nepochs = \"ten\"\n",
    );
    insta::assert_snapshot!(workspace.error(&["train", "ten.toml"]), @r#"
    error: ten.toml:4:10: invalid value `"ten"` for `train.epochs`: expected an integer in [1, 4294967295]
      |
    4 | epochs = "ten"
      |          ^^^^^
    "#);
}

#[test]
fn no_neighbors() {
    let overrides = ["model.attention.kind=knn", "model.attention.neighbors=0"];
    insta::assert_snapshot!(train(&Workspace::empty(), &overrides), @"error: --set model.attention.neighbors=0: invalid value `0` for `model.attention.neighbors`: expected an integer >= 1 (a count) or a float in (0, 1] (a share of the keys) or a non-empty list of them");
}

#[cfg(target_os = "linux")]
#[test]
fn a_page_that_cannot_be_written() {
    for words in [&["--help"][..], &["--version"], &["train", "--help"]] {
        let full = fs_err::OpenOptions::new().write(true).open("/dev/full");
        let output = std::process::Command::new(KVT)
            .args(words)
            .stdout(full.unwrap().into_file())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1), "{words:?}");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.starts_with("error: No space left"), "{stderr}");
    }
}

#[test]
fn a_misspelt_filter() {
    let workspace = Workspace::empty();
    for (filter, meant) in [("swni", "`swin`"), ("visformr*", "`visformer`,")] {
        for more in [&[][..], &["--weights"]] {
            let error = workspace.error(&[&["models", "list", filter], more].concat());
            let expected = format!("are called like `{filter}`: did you mean {meant}");
            assert!(
                error.replace("is called", "are called").contains(&expected),
                "{error}"
            );
        }
    }
}

#[test]
fn an_unknown_model() {
    let overrides = ["model.name=deit_tiny_patch16_225"];
    insta::assert_snapshot!(train(&Workspace::empty(), &overrides), @r"
    error: --set model.name=deit_tiny_patch16_225: unknown model `deit_tiny_patch16_225`
      help: did you mean `deit_tiny_patch16_224`?
    ");
}

#[test]
fn an_image_size_that_the_patches_do_not_fill() {
    let workspace = Workspace::with_data(2, 1);
    insta::assert_snapshot!(train(&workspace, &["model.img_size=18"]), @"error: `img_size` 18 is not a multiple of `patch_size` 4: the nearest multiples are 16 and 20");
    assert!(!workspace.path("run").exists());
}

/// Allowed, but hardly intended: `kvt config check` and the log of a run warn of it.
#[test]
fn a_warm_up_as_long_as_the_run() {
    let workspace = Workspace::empty();
    let overrides = ["--set", "schedule.warmup_epochs=2"];
    let check = [&["config", "check", "tiny.toml"], &overrides[..]].concat();
    let output = workspace.kvt(&check).assert().success();
    let stderr = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
    assert!(
        stderr.contains("warning: no folder `data/train`"),
        "{stderr}"
    );
    let warm_up = "the warm-up (`schedule.warmup_epochs` = 2) is not shorter than the run";
    assert!(stderr.contains(&format!("warning: {warm_up}")), "{stderr}");

    let workspace = Workspace::with_data(2, 1);
    let train = [&["train", "tiny.toml"], &overrides[..]].concat();
    workspace.kvt(&train).assert().success();
    let warned = workspace.log("run").into_iter().any(|event| match event {
        Event::Note(note) => note.topic == Topic::Warning && note.message.starts_with(warm_up),
        _ => false,
    });
    assert!(warned);
}

/// A folder's name may not be representable in a configuration.
#[cfg(unix)]
#[test]
fn a_run_folder_that_is_not_utf8() {
    use std::os::unix::ffi::OsStrExt;
    let workspace = Workspace::with_data(2, 1);
    let dir = std::ffi::OsStr::from_bytes(b"run-\xff");
    let mut train = workspace.kvt(&["train", "tiny.toml", "--set", "train.max_steps=1"]);
    train.arg("--run-dir").arg(dir).assert().success();
    let config = fs_err::read_to_string(workspace.path("").join(dir).join("config.toml")).unwrap();
    assert!(config.contains("dir = \"run-\u{fffd}\""), "{config}");
}

#[test]
fn no_data() {
    let workspace = Workspace::empty();
    insta::assert_snapshot!(train(&workspace, &[]), @"error: no folder `data/train`: expected an image folder `data/train/<class>/*.jpg`");
    assert!(!workspace.path("run").exists());
}

#[test]
fn images_without_class_folders() {
    let workspace = Workspace::empty();
    workspace.images("data/train", 2);
    insta::assert_snapshot!(train(&workspace, &[]), @"error: `data/train` holds images but no class folders: move each image into a folder named by its class, `data/train/<class>/*.jpg`, or name a table with their paths and labels in `data.labels`");
}

#[test]
fn splits_with_different_classes() {
    let workspace = Workspace::with_data(2, 1);
    fs_err::rename(workspace.path("data/val/c"), workspace.path("data/val/d")).unwrap();
    insta::assert_snapshot!(train(&workspace, &[]), @"error: the classes of `data/val` are not those expected: it lacks `c`, it also has `d`");
}

#[test]
fn an_absent_device() {
    let workspace = Workspace::with_data(2, 1);
    // The available devices depend on the machine.
    let error = workspace.error(&["train", "tiny.toml", "--device", "cuda:99"]);
    assert!(error.contains("cuda"), "{error}");
    assert!(
        error.contains("available: `") && error.contains("`cpu` ("),
        "{error}"
    );
    assert!(!workspace.path("run").exists());

    insta::assert_snapshot!(workspace.error(&["train", "tiny.toml", "--device", "gpu"]), @r#"error: --set train.device=gpu: invalid value `"gpu"` for `train.device`: expected `auto`, `cpu`, `wgpu`, `vulkan`, `metal`, `cuda` or `rocm`, a GPU with an index up to 255 as in `cuda:1`"#);
}

#[test]
fn a_corrupt_image_stops_the_run() {
    insta::assert_snapshot!(train(&corrupt(), &[]), @"error: could not decode `data/train/b/bad.png`: not a JPEG, PNG, WebP, BMP, TIFF or GIF file; the state after step 2 is saved; `--resume` continues from there");
}

#[test]
fn a_corrupt_image_may_be_skipped() {
    let workspace = corrupt();
    workspace
        .kvt(&["train", "tiny.toml", "--set", "data.on_error=skip"])
        .assert()
        .success();
    let log = workspace.log("run");
    let skipped: Vec<_> = log
        .iter()
        .filter_map(|event| match event {
            Event::Note(note) if note.topic == Topic::Skipped => Some(note),
            _ => None,
        })
        .collect();
    assert_eq!(skipped.len(), 2, "once per epoch");
    for note in skipped {
        assert_eq!(note.path.as_deref(), Some("data/train/b/bad.png"));
        assert_eq!(
            note.message,
            "not a JPEG, PNG, WebP, BMP, TIFF or GIF file (unreadable image 1 of this pass)"
        );
    }
    let epochs = log.iter().filter(|event| matches!(event, Event::Epoch(_)));
    assert_eq!(epochs.count(), 2);
}

#[test]
fn more_corrupt_images_than_allowed() {
    let overrides = ["data.on_error=skip", "data.max_skipped=0"];
    insta::assert_snapshot!(train(&corrupt(), &overrides), @"error: 1 unreadable images, more than the allowed 0; the last one: `data/train/b/bad.png`: not a JPEG, PNG, WebP, BMP, TIFF or GIF file; repair the data or raise `data.max_skipped`; the state after step 2 is saved; `--resume` continues from there");
}

#[test]
fn a_run_that_exists() {
    let workspace = Workspace::with_data(2, 1);
    workspace.kvt(&["train", "tiny.toml"]).assert().success();
    let log = workspace.read("run/log.jsonl");
    insta::assert_snapshot!(train(&workspace, &[]), @"error: run `run` exists: use `--resume` or another `run.dir`");
    assert_eq!(workspace.read("run/log.jsonl"), log);
}

/// The folder itself is not a split.
#[test]
fn a_split_without_a_name() {
    let workspace = Workspace::with_data(2, 1);
    for splits in ["", "train,"] {
        let arguments = ["data", "check", "data", "--splits", splits];
        let output = workspace.kvt(&arguments).assert().code(2);
        let error = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
        assert!(error.contains("--splits"), "{error}");
    }
}

#[test]
fn sizes_that_do_not_fit_name_their_stage() {
    let workspace = Workspace::empty();
    let show = [
        "models",
        "show",
        "swin_tiny_patch4_window7_224",
        "--set",
        "model.num_heads=[3,6,7,24]",
    ];
    insta::assert_snapshot!(workspace.error(&show), @"error: in `layers.2`: `embed_dim` 384 is not a multiple of `num_heads` 7: every head needs the same number of channels");
}

#[test]
fn no_run_to_resume_or_to_read() {
    let workspace = Workspace::with_data(2, 1);
    insta::assert_snapshot!(workspace.error(&["train", "tiny.toml", "--resume"]), @"error: `run` holds no run: it has no `config.toml`");
    insta::assert_snapshot!(workspace.error(&["eval", "--run", "nowhere"]), @"error: `nowhere` holds no run: it has no `config.toml`");
}

#[test]
fn weights_of_another_model() {
    let workspace = Workspace::with_data(2, 1);
    workspace.kvt(&["train", "tiny.toml"]).assert().success();
    let weights = workspace.last_checkpoint("run").join("model.safetensors");
    fs_err::copy(weights, workspace.path("w.safetensors")).unwrap();
    let init = ["init.weights=w.safetensors", "run.dir=other"];

    let error = train(&workspace, &[&init[..], &["model.depth=3"]].concat());
    insta::assert_snapshot!(error, @"error: could not start from the weights in `w.safetensors`: the weights do not fit the model: `blocks.2.norm1.weight` is missing; `blocks.2.norm1.bias` is missing; `blocks.2.attn.qkv.weight` is missing; `blocks.2.attn.qkv.bias` is missing; `blocks.2.attn.proj.weight` is missing; `blocks.2.attn.proj.bias` is missing; `blocks.2.norm2.weight` is missing; `blocks.2.norm2.bias` is missing; `blocks.2.mlp.fc1.weight` is missing; `blocks.2.mlp.fc1.bias` is missing; `blocks.2.mlp.fc2.weight` is missing; `blocks.2.mlp.fc2.bias` is missing");

    // A shallower model finds all its weights: the unused ones are reported.
    let sets = [&init[..], &["model.depth=1"]].concat();
    let arguments = sets.iter().flat_map(|set| ["--set", set]);
    let arguments: Vec<&str> = ["train", "tiny.toml"]
        .into_iter()
        .chain(arguments)
        .collect();
    workspace.kvt(&arguments).assert().success();
    let log = workspace.read("other/log.jsonl");
    // Behind the line on the images.
    let note = log.lines().nth(1).unwrap();
    assert!(
        note.contains("12 keys are unused, such as `blocks.1."),
        "{note}"
    );
    fs_err::remove_dir_all(workspace.path("other")).unwrap();

    // A run has its own weights.
    let arguments = ["eval", "--run", "run", "--weights", "w.safetensors"];
    let output = workspace.kvt(&arguments).assert().code(2);
    let error = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
    assert!(error.contains("cannot be used with"), "{error}");

    for split in ["train", "val"] {
        fs_err::remove_dir_all(workspace.path(&format!("data/{split}/c"))).unwrap();
    }
    let error = train(&workspace, &init);
    assert!(
        error.contains(
            "`head.weight` has shape [3, 16], expected [2, 16]; `head.bias` has shape [3], expected [2]"
        ),
        "{error}"
    );
    // No run that would block the next attempt.
    assert!(!workspace.path("other").exists());
}

#[test]
fn a_loss_that_is_no_number() {
    let workspace = Workspace::with_data(6, 1);
    let overrides = [
        "optim.lr=1e30",
        "optim.clip_norm=0",
        "schedule.warmup_epochs=0",
    ];
    insta::assert_snapshot!(train(&workspace, &overrides), @"error: step 2 (epoch 1): loss NaN, gradient norm NaN: training cannot continue; the batch and the weights before it are in `run/nonfinite-step-2`");

    let dump = workspace.path("run/nonfinite-step-2");
    let weights = read_weights(&dump.join("model.safetensors"));
    assert!(weights.get("blocks.1.attn.qkv.weight").is_some());
    let batch = read_weights(&dump.join("batch.safetensors"));
    let images = batch.get("images.0").unwrap();
    assert_eq!(images.shape().to_vec(), [6, 3, 16, 16]);
    let files: Value =
        serde_json::from_str(&workspace.read("run/nonfinite-step-2/batch.json")).unwrap();
    let files = files.as_array().unwrap();
    assert_eq!(files.len(), 6);
    for file in files {
        let (path, label) = (file[0].as_str().unwrap(), file[1].as_u64().unwrap());
        assert!(workspace.path(path).exists());
        let class = ["a", "b", "c"][usize::try_from(label).unwrap()];
        assert!(path.starts_with(&format!("data/train/{class}/")), "{path}");
    }
}
