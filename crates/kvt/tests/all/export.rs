//! `kvt export` and `kvt weights export`: what a trained model becomes for other programs.

use kvt_models::weights::StateDict;

#[cfg(feature = "export")]
use crate::support::{KVT, crates_dir};
use crate::support::{Workspace, read_weights};

/// A model of timm's size for small images, with random weights in a file that the configuration starts from.
fn of_timm(workspace: &Workspace) -> [&'static str; 4] {
    let config = "[model]\nname = \"deit_tiny_patch16_224\"\nimg_size = 32\nnum_classes = 3\n[augment]\ncrop_pct = 0.9\n\
                  [data]\npath = \"data\"\n[train]\ndevice = \"cpu\"\n";
    workspace.write("deit.toml", config);
    let plan = kvt_train::config::load_plan(&workspace.path("deit.toml"), &[]).unwrap();
    let config = plan.model.config(None).unwrap();
    let key = kvt_ops::Key::new(1);
    let model = config.init(&burn::tensor::Device::flex(), key).unwrap();
    let weights = StateDict::from_model(&model).unwrap();
    let path = workspace.path("w.safetensors");
    kvt_train::task::write_weights(&path, &weights, &Default::default()).unwrap();
    ["--config", "deit.toml", "--weights", "w.safetensors"]
}

#[test]
fn timm_gets_weights_and_what_belongs_to_them() {
    let workspace = Workspace::with_data(1, 1);
    let of_model = of_timm(&workspace);
    let export = |to: &'static str| [&["weights", "export"], &of_model[..], &[to]].concat();
    workspace.kvt(&export("out")).assert().success();
    let mut entries = workspace.entries("out");
    entries.sort();
    assert_eq!(entries, ["config.json", "model.safetensors"]);
    let [written, given] =
        ["out/model.safetensors", "w.safetensors"].map(|file| workspace.path(file));
    assert!(read_weights(&written) == read_weights(&given));
    let config: serde_json::Value =
        serde_json::from_str(&workspace.read("out/config.json")).unwrap();
    assert_eq!(config["architecture"], "deit_tiny_patch16_224");
    assert_eq!(config["label_names"], serde_json::json!(["a", "b", "c"]));
    assert_eq!(config["pretrained_cfg"]["crop_pct"], 0.9);
    assert_eq!(
        config["pretrained_cfg"]["input_size"],
        serde_json::json!([3, 32, 32])
    );
    let wide = ["--set", "model.img_size=[32,48]", "wide"];
    let wide = [&["weights", "export"], &of_model[..], &wide].concat();
    workspace.kvt(&wide).assert().success();
    let config: serde_json::Value =
        serde_json::from_str(&workspace.read("wide/config.json")).unwrap();
    assert_eq!(
        config["pretrained_cfg"]["input_size"],
        serde_json::json!([3, 32, 48])
    );
    assert_eq!(
        config["model_args"]["img_size"],
        serde_json::json!([32, 48])
    );
    // A folder that holds something is left alone.
    let error = workspace.error(&export("out"));
    assert!(error.contains("`out` is not empty"), "{error}");
}

/// Neither needs an image: the number of classes is that of the weights, and folders beside the configuration are not its data.
#[test]
fn a_model_alone_is_exported() {
    let workspace = Workspace::with_data(1, 1);
    let of_model = of_timm(&workspace);
    let alone =
        "[model]\nname = \"deit_tiny_patch16_224\"\nimg_size = 32\n[train]\ndevice = \"cpu\"\n";
    workspace.write("deit.toml", alone);
    for class in ["d", "e"] {
        workspace.images(&format!("train/{class}"), 1);
    }
    let with = |verb: &[&'static str], more: &[&'static str]| [verb, &of_model[..], more].concat();
    let export = ["weights", "export"];
    workspace.kvt(&with(&export, &["out"])).assert().success();
    let config: serde_json::Value =
        serde_json::from_str(&workspace.read("out/config.json")).unwrap();
    assert_eq!(config["num_classes"], 3);
    assert_eq!(config["label_names"], serde_json::Value::Null);
    let [written, given] =
        ["out/model.safetensors", "w.safetensors"].map(|file| workspace.path(file));
    assert!(read_weights(&written) == read_weights(&given));
    #[cfg(feature = "export")]
    workspace
        .kvt(&with(&["export"], &["m.onnx"]))
        .assert()
        .success();

    let other = ["--set", "model.num_classes=5", "five"];
    let error = workspace.error(&with(&export, &other));
    for said in ["`model.num_classes`", "`head.weight` has shape [3, "] {
        assert!(error.contains(said), "{error}");
    }
    assert!(!workspace.path("five").exists());
    // Images to evaluate are needed as ever.
    let error = workspace.error(&with(&["eval"], &[]));
    assert!(error.contains("missing key `data.path`"), "{error}");
}

#[test]
fn what_cannot_be_exported_is_refused() {
    let workspace = Workspace::with_data(1, 1);
    let of_model = of_timm(&workspace);
    let knn = [
        "--set",
        "model.attention.kind=knn",
        "--set",
        "model.attention.neighbors=2",
    ];
    let error = workspace.error(&[&["weights", "export"], &of_model[..], &knn, &["out"]].concat());
    assert!(
        error.contains("timm has no `deit_tiny_patch16_32`"),
        "{error}"
    );
    assert!(!workspace.path("out").exists());

    let export = |file: &'static str| [&["export"], &of_model[..], &[file]].concat();
    let error = workspace.error(&export("w.safetensors"));
    assert!(error.contains("another ending than `.onnx`"), "{error}");
    workspace.write("m.onnx", "");
    let error = workspace.error(&export("m.onnx"));
    assert!(error.contains("`m.onnx` exists: use `--force`"), "{error}");
}

#[cfg(not(feature = "export"))]
#[test]
fn a_build_without_the_feature_says_so() {
    let workspace = Workspace::with_data(1, 1);
    let error = workspace.error(&["export", "--run", "run", "m.onnx"]);
    assert!(
        error.contains("built without the feature `export`"),
        "{error}"
    );
}

#[cfg(feature = "export")]
#[test]
fn a_run_becomes_a_file() {
    let workspace = Workspace::with_data(2, 1);
    workspace.train(
        "run",
        &[
            "train.epochs=1",
            "model.attention.kind=knn",
            "model.attention.neighbors=4",
        ],
    );
    workspace
        .kvt(&["export", "--run", "run", "m.onnx"])
        .assert()
        .success();
    let file = fs_err::read(workspace.path("m.onnx")).unwrap();
    // The version of the layout; the names of the classes are at the end, beside the graph.
    assert_eq!(file[..2], [8, 8]);
    let text = String::from_utf8_lossy(&file);
    assert!(text.contains("[\"a\",\"b\",\"c\"]") && text.contains("blocks.1.attn.qkv.weight"));
}

/// What `scripts/reference/export_check.py` prints of the program under test, by the Python of `KVT_PYTHON`.
#[cfg(feature = "export")]
fn checked_in_python(arguments: &[&str]) -> String {
    let python = std::env::var_os("KVT_PYTHON").unwrap_or_else(|| {
        panic!("KVT_PYTHON is not set: a Python with onnx, onnxruntime, PyTorch and timm")
    });
    let script = crates_dir().join("../scripts/reference/export_check.py");
    let run = assert_cmd::Command::new(python)
        .arg(script)
        .arg(KVT)
        .args(arguments)
        .assert()
        .success();
    String::from_utf8(run.get_output().stdout.clone()).unwrap()
}

#[cfg(feature = "export")]
#[test]
#[ignore = "needs Python with onnxruntime and timm: `KVT_PYTHON`"]
fn onnxruntime_and_timm_give_the_same_logits() {
    let text = checked_in_python(&["deit_tiny_patch16_224"]);
    for start in [
        "onnxruntime, 4 at a time ",
        "onnxruntime, 1 at a time ",
        "timm ",
    ] {
        assert!(text.lines().any(|line| line.starts_with(start)), "{text}");
    }
}

/// timm has no such model.
#[cfg(feature = "export")]
#[test]
#[ignore = "needs Python with onnxruntime and timm: `KVT_PYTHON`"]
fn onnxruntime_keeps_the_same_keys() {
    let text = checked_in_python(&["deit_tiny_patch16_224", "--neighbors", "0.5"]);
    for start in ["onnxruntime, 4 at a time ", "onnxruntime, 1 at a time "] {
        assert!(text.lines().any(|line| line.starts_with(start)), "{text}");
    }
}
