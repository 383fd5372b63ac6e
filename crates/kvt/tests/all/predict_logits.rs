//! `kvt logits` against timm, and `kvt predict`.

use kvt_models::weights::{StateDict, read, write};
use serde_json::Value;

use crate::support::{Golden, Workspace, floats};

#[test]
fn dense_logits_are_timms() {
    logits_are_timms("deit_dense");
}

#[test]
fn knn_logits_are_timms() {
    logits_are_timms("deit_knn_count");
}

/// What chooses among the weights and images of a run has no meaning for others.
#[test]
fn choices_of_a_run_are_refused_without_one() {
    let workspace = Workspace::empty();
    for choice in [
        "--checkpoint last",
        "--ema",
        "--raw",
        "--split val",
        "--half",
    ] {
        let line = "logits --model m --weights w --input i --output o.safetensors";
        let output = workspace.line(&format!("{line} {choice}")).assert().code(2);
        let said = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
        let expected = "`--input <FILE>` cannot be used with `--";
        assert!(said.replace('\'', "`").contains(expected), "{said}");
    }
}

/// Even if they are named in another way.
#[test]
fn logits_do_not_replace_what_they_are_computed_from() {
    let workspace = Workspace::empty();
    workspace.write("w.safetensors", "weights");
    workspace.write("in.safetensors", "images");
    for (output, content) in [("./w.safetensors", "weights"), ("in.safetensors", "images")] {
        let line =
            "logits --model deit_tiny_patch16_224 --weights w.safetensors --input in.safetensors";
        let mut words: Vec<&str> = line.split(' ').collect();
        words.extend(["--output", output]);
        let error = workspace.error(&words);
        let expected = format!("`{output}` is read by this command: choose another name");
        assert!(error.contains(&expected), "{error}");
        assert_eq!(workspace.read(output), content);
    }
}

fn logits_are_timms(name: &str) {
    let file = format!("kvt-models/tests/golden/{name}.safetensors");
    let golden = Golden::read(&file);
    let workspace = Workspace::empty();
    golden.write_weights(&workspace.path("w.safetensors"));
    let tensors = read(&crate::support::crates_dir().join(&file)).unwrap();
    let mut input = StateDict::default();
    input.insert("images", tensors.get("images").unwrap().clone());
    write(
        &workspace.path("in.safetensors"),
        &input,
        &Default::default(),
    )
    .unwrap();

    let mut arguments: Vec<String> = [
        "logits",
        "--model",
        "deit_tiny_patch16_224",
        "--weights",
        "w.safetensors",
        "--input",
        "in.safetensors",
        "--output",
        "out.safetensors",
        "--device",
        "cpu",
    ]
    .map(str::to_owned)
    .to_vec();
    let mut set = |key: &str, value: &Value| {
        arguments.extend(["--set".to_owned(), format!("model.{key}={value}")]);
    };
    for key in [
        "img_size",
        "patch_size",
        "embed_dim",
        "depth",
        "num_heads",
        "mlp_ratio",
    ] {
        set(key, &golden.config[key]);
    }
    let attention = &golden.config["attention"];
    set("attention.kind", &attention["kind"]);
    if !attention["neighbors"].is_null() {
        set("attention.neighbors", &attention["neighbors"]);
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    workspace.kvt(&arguments).assert().success();

    let found = read(&workspace.path("out.safetensors")).unwrap();
    assert_eq!(
        found.get("logits").unwrap().shape(),
        tensors.get("logits").unwrap().shape()
    );
    let (found, expected) = (floats(&found, "logits"), floats(&tensors, "logits"));
    let scale = expected.iter().fold(0.0f32, |max, x| max.max(x.abs()));
    for (f, e) in found.iter().zip(&expected) {
        assert!((f - e).abs() <= 1e-4 * scale, "{f} instead of {e}");
    }
}

#[test]
fn predictions_name_the_classes_of_the_run() {
    let workspace = Workspace::with_data(6, 1);
    workspace.kvt(&["train", "tiny.toml"]).assert().success();
    let images = ["data/val/a/000.png", "data/val/c/000.png"];
    let predict = ["predict", "--run", "run", images[0], images[1]];
    let mut json = predict.to_vec();
    json.extend(["--json", "--top", "99"]);
    let found = workspace.json(&json);
    let found = found.as_array().unwrap();
    assert_eq!(found.len(), 2);
    for (image, prediction) in images.iter().zip(found) {
        assert_eq!(prediction["image"], *image);
        let top = prediction["top"].as_array().unwrap();
        let mut classes: Vec<&str> = top.iter().map(|g| g["class"].as_str().unwrap()).collect();
        classes.sort_unstable();
        assert_eq!(classes, ["a", "b", "c"]);
        let probabilities: Vec<f64> = top
            .iter()
            .map(|g| g["probability"].as_f64().unwrap())
            .collect();
        assert!(probabilities.is_sorted_by(|a, b| a >= b));
        let sum: f64 = probabilities.iter().sum();
        assert!((sum - 1.0).abs() < 1e-9, "{sum}");
    }

    let mut table = predict.to_vec();
    table.extend(["--top", "1"]);
    let printed = workspace.kvt(&table).assert().success();
    let printed = String::from_utf8(printed.get_output().stdout.clone()).unwrap();
    assert_eq!(printed.lines().count(), 3, "{printed}");
    for (image, prediction) in images.iter().zip(found) {
        let class = prediction["top"][0]["class"].as_str().unwrap();
        let row = printed.lines().find(|line| line.contains(image)).unwrap();
        assert_eq!(row.split_whitespace().nth(1), Some(class), "{printed}");
    }
}

/// A folder, a pattern that the shell has not expanded, and both file formats.
#[test]
fn folders_and_patterns_are_classified_into_files() {
    let workspace = Workspace::with_data(6, 2);
    workspace.kvt(&["train", "tiny.toml"]).assert().success();
    let predict = ["predict", "--run", "run", "--top", "2"];
    let images = ["data/val/a/*.png", "data/val/c"];
    let to = |file| [&predict[..], &images, &["--output", file]].concat();
    for file in ["out.json", "out.csv"] {
        let done = workspace.kvt(&to(file)).assert().success();
        assert_eq!(done.get_output().stdout, b"");
    }
    // As with weights, a file that is there is replaced only by request.
    workspace.write("out.csv", "mine");
    let error = workspace.error(&to("out.csv"));
    assert!(
        error.contains("`out.csv` exists: use `--force` or another name"),
        "{error}"
    );
    assert_eq!(workspace.read("out.csv"), "mine");
    let forced = [&to("out.csv")[..], &["--force"]].concat();
    workspace.kvt(&forced).assert().success();
    let json: Value = serde_json::from_str(&workspace.read("out.json")).unwrap();
    let csv = workspace.read("out.csv");
    let mut rows = csv.lines();
    assert_eq!(rows.next(), Some("image,rank,class,probability,error"));
    let files = ["a/000", "a/001", "c/000", "c/001"];
    for (file, found) in files.iter().zip(json.as_array().unwrap()) {
        let file = format!("data/val/{file}.png");
        assert_eq!(found["image"], file);
        for rank in 0..2 {
            let top = &found["top"][rank];
            let (class, probability) = (top["class"].as_str().unwrap(), &top["probability"]);
            let row = format!("{file},{},{class},{probability},", rank + 1);
            assert_eq!(rows.next(), Some(row.as_str()));
        }
    }
    assert_eq!((rows.next(), json.as_array().unwrap().len()), (None, 4));
    if cfg!(unix) {
        let done = workspace.kvt(&to("/dev/stdout")).assert().success();
        assert_eq!(done.get_output().stdout, csv.as_bytes());
    }
}

#[test]
fn an_unreadable_image_does_not_keep_the_others_from_an_answer() {
    let workspace = Workspace::with_data(6, 1);
    workspace.kvt(&["train", "tiny.toml"]).assert().success();
    std::fs::write(workspace.path("broken.png"), "no image").unwrap();
    let good = "data/val/a/000.png";
    let files = ["broken.png", good, "absent.jpg"];
    let mut arguments = vec!["predict", "--run", "run", "--json"];
    arguments.extend(files);
    let output = workspace.kvt(&arguments).assert().failure();
    let output = output.get_output();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    // Something that is not a file has no row; a file that is not an image has a row with the reason.
    assert_eq!(found.as_array().unwrap().len(), 2);
    assert_eq!(found[0]["image"], "broken.png");
    let reason = found[0]["error"].as_str().unwrap();
    assert!(
        reason.starts_with("could not decode `broken.png`"),
        "{reason}"
    );
    assert_eq!(found[1]["image"], good);
    assert_eq!(found[1]["top"].as_array().unwrap().len(), 3);
    let errors = String::from_utf8(output.stderr.clone()).unwrap();
    for file in ["broken.png", "absent.jpg"] {
        assert!(errors.contains(&format!("`{file}`")), "{errors}");
    }
    // In a file it has a row, too, and an image of the next batch has its own; the table has only the others.
    let line = [
        "predict",
        "--run",
        "run",
        "--set",
        "eval.batch_size=1",
        "--top",
        "1",
        "broken.png",
        good,
    ];
    let to_file = [&line[..], &["--output", "out.csv"]].concat();
    workspace.kvt(&to_file).assert().failure();
    let csv = workspace.read("out.csv");
    let rows: Vec<&str> = csv.lines().collect();
    assert!(rows[1].starts_with("broken.png,,,,"), "{csv}");
    assert!(
        rows[2].starts_with(&format!("{good},1,")) && rows[2].ends_with(','),
        "{csv}"
    );
    let output = workspace.kvt(&line).assert().failure();
    let table = String::from_utf8(output.get_output().stdout.clone()).unwrap();
    assert_eq!(table.lines().count(), 2, "{table}");
    assert!(table.lines().nth(1).unwrap().starts_with(good), "{table}");
}

#[cfg(target_os = "linux")]
#[test]
fn names_that_are_not_utf8_are_in_the_json_all_the_same() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let workspace = Workspace::with_data(6, 1);
    workspace.kvt(&["train", "tiny.toml"]).assert().success();
    let (image, folder) = (OsStr::from_bytes(b"\xff.png"), OsStr::from_bytes(b"\xff"));
    let [good, val] = ["data/val/a/000.png", "data/val"].map(|name| workspace.path(name));
    fs_err::copy(good, workspace.path("").join(image)).unwrap();
    fs_err::rename(val, workspace.path("").join(folder)).unwrap();
    let json = |arguments: &[&str], last: &OsStr| -> Value {
        let mut command = workspace.kvt(arguments);
        let output = command.arg(last).assert().success();
        serde_json::from_slice(&output.get_output().stdout).unwrap()
    };
    let predicted = json(&["predict", "--run", "run", "--json"], image);
    assert_eq!(predicted[0]["image"], "\u{fffd}.png");
    let evaluated = json(&["eval", "--run", "run", "--json", "--data"], folder);
    assert_eq!(evaluated["data"], "\u{fffd}");
}
