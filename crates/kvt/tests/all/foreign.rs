//! Files from others, or special files: their content is not trusted, and output paths are checked before the work, not after it.

use burn::tensor::TensorData;
use kvt_models::weights::{StateDict, write};
use predicates::prelude::*;

use crate::support::{Workspace, floats, read_weights};

/// A trained run, and its weights in `w.safetensors` with one of them changed.
fn run_with(name: &str, change: impl Fn(&mut [f32])) -> Workspace {
    let workspace = Workspace::with_data(6, 1);
    workspace
        .kvt(&["train", "tiny.toml", "--set", "train.max_steps=1"])
        .assert()
        .success();
    let file = workspace.last_checkpoint("run").join("model.safetensors");
    let mut weights = read_weights(&file);
    let mut values = floats(&weights, name);
    change(&mut values);
    let shape = weights.get(name).unwrap().shape().to_vec();
    weights.insert(name, TensorData::new(values, shape));
    let changed = workspace.path("w.safetensors");
    write(&changed, &weights, &Default::default()).unwrap();
    workspace
}

const CHANGED: [&str; 4] = ["--config", "tiny.toml", "--weights", "w.safetensors"];
const IMAGE: &str = "data/val/a/000.png";

#[test]
fn weights_that_are_no_numbers_predict_nothing() {
    let workspace = run_with("blocks.1.attn.qkv.bias", |values| values[3] = f32::NAN);
    let eval = [&["eval"], &CHANGED[..]].concat();
    insta::assert_snapshot!(workspace.error(&eval), @"error: `blocks.1.attn.qkv.bias` holds NaN or infinite numbers (1): such a model predicts nothing; take other weights, such as those of an earlier checkpoint");
    let predict = [&["predict", IMAGE, "--json"], &CHANGED[..]].concat();
    let error = workspace.error(&predict);
    assert!(error.contains("`blocks.1.attn.qkv.bias`"), "{error}");
    // No run begins with them.
    let train = [
        "train",
        "tiny.toml",
        "--run-dir",
        "other",
        "--set",
        "init.weights=w.safetensors",
    ];
    let error = workspace.error(&train);
    let expected =
        "could not start from the weights in `w.safetensors`: `blocks.1.attn.qkv.bias` holds NaN";
    assert!(error.contains(expected), "{error}");
    assert!(!workspace.path("other").exists());

    let numbers =
        "numbers  1 is NaN or infinite, in 1 tensor, the first of them `blocks.1.attn.qkv.bias`\n";
    workspace
        .kvt(&["weights", "inspect", "w.safetensors"])
        .assert()
        .success()
        .stdout(predicate::str::contains(numbers));
    let model = ["--config", "tiny.toml"];
    workspace
        .kvt(&[&["weights", "inspect", "w.safetensors"], &model[..]].concat())
        .assert()
        .success()
        .stdout(predicate::str::contains(numbers));
    let convert = ["weights", "convert", "w.safetensors", "out.safetensors"];
    workspace
        .kvt(&[&convert, &model[..]].concat())
        .assert()
        .success()
        .stderr(predicate::str::contains("1 is NaN or infinite"));
}

/// The weights are finite, but the logits are not.
#[test]
fn logits_that_are_no_numbers_are_no_result() {
    let workspace = run_with("head.weight", |values| values.fill(3e38));
    let eval = [&["eval"], &CHANGED[..]].concat();
    let error = workspace.error(&eval);
    assert!(error.contains("the loss over 3 images is "), "{error}");
    assert!(error.contains("the logits are not finite"), "{error}");
    let predict = [&["predict", IMAGE, "--json"], &CHANGED[..]].concat();
    insta::assert_snapshot!(workspace.error(&predict), @"error: the logits of `data/val/a/000.png` are not finite: take other weights");
}

#[test]
fn one_class_is_nothing_to_learn() {
    let workspace = Workspace::empty();
    workspace.images("data/train/a", 6);
    workspace.images("data/val/a", 1);
    insta::assert_snapshot!(workspace.error(&["train", "tiny.toml"]), @"error: `data/train` has one class only, `a`: there is nothing to learn; it takes two classes or more, of an image folder each a folder");
    assert!(!workspace.path("run").exists());
}

/// A name that would clear the screen, change the colour and ring the bell.
const EVIL: &str = "a\u{1b}[2J\u{1b}[31m\u{7}\u{9b}1mz";
const HARMLESS: &str = r"a\u001b[2J\u001b[31m\u0007\u009b1mz";

#[track_caller]
fn assert_harmless(workspace: &Workspace, arguments: &[&str]) {
    let output = workspace.kvt(arguments).output().unwrap();
    for stream in [&output.stdout, &output.stderr] {
        let text = String::from_utf8(stream.clone()).unwrap();
        let raw = |c: char| c.is_control() && c != '\n';
        assert!(!text.contains(raw), "{text:?}");
    }
    let all = [output.stdout, output.stderr].concat();
    let all = String::from_utf8(all).unwrap();
    assert!(all.contains(HARMLESS), "{all}");
}

#[test]
fn names_are_no_commands_to_the_terminal() {
    let workspace = Workspace::with_data(2, 1);
    let mut weights = StateDict::default();
    weights.insert(EVIL, TensorData::new(vec![1.0f32], [1]));
    let path = workspace.path("w.safetensors");
    write(&path, &weights, &Default::default()).unwrap();
    assert_harmless(&workspace, &["weights", "inspect", "w.safetensors"]);
    let model = ["--model", "pit_ti_224"];
    let inspect = [&["weights", "inspect", "w.safetensors"], &model[..]].concat();
    assert_harmless(&workspace, &inspect);

    // A key, and the name of a file.
    let key = EVIL
        .replace('\u{1b}', "\\u001b")
        .replace('\u{7}', "\\u0007");
    workspace.write("evil.toml", format!("\"{key}\" = 1\n"));
    assert_harmless(&workspace, &["config", "check", "evil.toml"]);
    assert_harmless(&workspace, &["weights", "inspect", &format!("{EVIL}.pth")]);

    // The name of a class.
    for split in ["train", "val"] {
        let class = workspace.path(&format!("data/{split}"));
        fs_err::rename(class.join("a"), class.join(EVIL)).unwrap();
    }
    workspace.kvt(&["train", "tiny.toml"]).assert().success();
    let predict = ["predict", "--run", "run", "data/val/b/000.png"];
    assert_harmless(&workspace, &predict);
    assert_harmless(&workspace, &[&predict[..], &["--json"]].concat());
}

/// Opening a pipe would wait for a writer.
#[cfg(unix)]
#[test]
fn a_pipe_is_no_configuration_and_no_weights() {
    let workspace = Workspace::empty();
    for name in ["pipe.toml", "pipe.safetensors"] {
        let made = std::process::Command::new("mkfifo")
            .arg(workspace.path(name))
            .status();
        assert!(made.unwrap().success());
    }
    workspace.write("base.toml", "base = \"pipe.toml\"\n");
    let config = "a named pipe, not a file";
    for (arguments, reason) in [
        (["config", "check", "pipe.toml"], config),
        (["config", "check", "base.toml"], config),
        (
            ["weights", "inspect", "pipe.safetensors"],
            "not a regular file",
        ),
    ] {
        workspace
            .kvt(&arguments)
            .timeout(std::time::Duration::from_secs(60))
            .assert()
            .code(1)
            .stderr(predicate::str::contains(reason));
    }
    // Input piped in by a shell is read to its end.
    workspace
        .kvt(&["config", "check", "/dev/stdin"])
        .write_stdin(workspace.read("tiny.toml"))
        .assert()
        .success();
}

/// Each of these would otherwise fail only at the end: the input, which is read first, does not even exist.
#[test]
fn a_path_that_cannot_be_written_is_said_before_the_work() {
    let workspace = Workspace::empty();
    let output = workspace
        .kvt(&[
            "bench",
            "attention",
            "--device",
            "cpu",
            "--json",
            "none/out.json",
        ])
        .assert()
        .code(1)
        .stdout("");
    let error = String::from_utf8(output.get_output().stderr.clone()).unwrap();
    assert!(error.contains("could not write `none/out.json`"), "{error}");

    let model = ["--model", "deit_tiny_patch16_224"];
    let logits = [
        "logits",
        "--weights",
        "gone.pth",
        "--input",
        "gone.safetensors",
    ];
    let convert = ["weights", "convert", "gone.pth", "none/out.safetensors"];
    for arguments in [
        [&logits[..], &["--output", "none/out.safetensors"], &model].concat(),
        [&convert[..], &model].concat(),
    ] {
        let error = workspace.error(&arguments);
        assert!(
            error.starts_with("error: could not write `none/out.safetensors`"),
            "{error}"
        );
    }
}

#[test]
fn several_keys_in_one_override() {
    let workspace = Workspace::empty();
    let set = "train.epochs=3\ntrain.batch_size=7";
    let error = workspace.error(&["config", "check", "tiny.toml", "--set", set]);
    assert!(error.contains("the value has several lines"), "{error}");
}
