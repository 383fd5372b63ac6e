//! `kvt demo`.

use crate::support::Workspace;

const TINY: [&str; 11] = [
    "demo",
    "--device",
    "cpu",
    "--set",
    "train.epochs=1",
    "--set",
    "train.batch_size=16",
    "--set",
    "data.shapes.train_per_class=8",
    "--set",
    "data.shapes.val_per_class=4",
];

/// In an empty folder, with nothing but the program.
#[test]
fn a_demo_is_shown_and_trained_once() {
    let workspace = Workspace::empty();
    let output = workspace.kvt(&TINY).assert().success();
    let text = String::from_utf8_lossy(&output.get_output().stdout).into_owned();
    for expected in [
        "dense",
        "knn",
        "wrote `runs/demo/report.html`",
        "wrote `runs/demo/attention.png`",
    ] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
    let names = ["table.md", "table.csv", "top1.svg", "loss.svg"];
    for name in names {
        assert!(workspace.path("runs/demo").join(name).is_file(), "{name}");
    }
    let report = workspace.read("runs/demo/report.html");
    assert!(report.contains("Surest mistakes"), "no images were judged");
    let attention = workspace.path("runs/demo/attention.png");
    let picture = image::open(&attention).unwrap();
    // The image of 32 pixels and its two heads, enlarged, for both runs.
    assert!(picture.width() >= 3 * 192 && picture.height() >= 2 * 192);

    // Finished runs stay as they are, and what is missing of the rest is made from them.
    let logs = || ["dense", "knn"].map(|run| workspace.read(&format!("runs/demo/{run}/log.jsonl")));
    let trained = logs();
    fs_err::remove_file(&attention).unwrap();
    workspace.kvt(&TINY).assert().success();
    assert_eq!(logs(), trained);
    assert_eq!(image::open(&attention).unwrap(), picture);
    assert_eq!(workspace.read("runs/demo/report.html"), report);
}

#[test]
fn a_wrong_override_is_refused_before_anything_is_written() {
    let workspace = Workspace::empty();
    let error = workspace.error(&["demo", "--set", "train.epoch=1"]);
    assert!(error.contains("did you mean `epochs`?"), "{error}");
    assert!(!workspace.path("runs").exists());
}
