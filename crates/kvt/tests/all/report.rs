//! `kvt report`, from training to the file.

use crate::support::Workspace;

/// A class name that would end an element if it were not escaped.
const NASTY: &str = "<script>alert(1)<script>";

/// Two runs on three classes; one class has the nasty name.
fn runs() -> Workspace {
    let workspace = Workspace::empty();
    for class in ["a", "b", NASTY] {
        workspace.images(&format!("data/train/{class}"), 6);
        workspace.images(&format!("data/val/{class}"), 4);
    }
    for arguments in [
        &["run.dir=dense"][..],
        &[
            "run.dir=knn",
            "model.attention.kind=knn",
            "model.attention.neighbors=4",
        ],
    ] {
        let mut all = vec!["train", "tiny.toml", "--set", "optim.lr=0.01"];
        for &key in arguments {
            all.extend(["--set", key]);
        }
        workspace.kvt(&all).assert().success();
    }
    workspace
}

/// The values of a column of `epochs.csv`.
fn column(csv: &str, name: &str) -> String {
    let mut rows = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = rows.next().unwrap();
    let at = header.iter().position(|other| *other == name).unwrap();
    rows.map(|row| row[at]).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_report_of_runs_with_images() {
    let workspace = runs();
    let compare = ["compare", "dense", "knn", "--output", "cmp"];
    let output = workspace.kvt(&compare).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.ends_with("next: kvt report dense knn\n"), "{said}");

    let report = [
        "report",
        "dense",
        "knn",
        "--eval",
        "--samples",
        "3",
        "--out",
        "new/both.html",
        "--checkpoint",
        "last",
    ];
    workspace.kvt(&report).assert().success();
    let html = workspace.read("new/both.html");
    for run in ["dense", "knn"] {
        let csv = workspace.read(&format!("{run}/epochs.csv"));
        for name in ["val_top1", "train_loss", "val_loss", "lr"] {
            let values = column(&csv, name);
            assert!(
                html.contains(&format!("data-y=\"{values}\"")),
                "{name}: {values}"
            );
        }
    }
    // The accuracy that `kvt eval` reports.
    let eval = ["eval", "--run", "knn", "--checkpoint", "last", "--json"];
    let found = workspace.json(&eval);
    let of = |key: &str| found[key].as_f64().unwrap();
    let [low, high] = [0, 1].map(|end| found["top1_interval"][end].as_f64().unwrap());
    let top1 = format!(
        "top-1 {:.2} % (95 % interval {low:.1} to {high:.1}), loss {:.4}",
        of("top1"),
        of("loss")
    );
    assert!(html.contains(&top1), "{top1}");
    assert_eq!(html.matches("<script").count(), 1);
    assert!(html.contains("&lt;script&gt;alert(1)&lt;script&gt;"));
    for part in [
        "model.<wbr/>attention.<wbr/>neighbors<wbr/>",
        "id=\"comparison\"",
        "class=\"matrix\"",
        "data:image/png;base64,",
        "patches looked at",
    ] {
        assert!(html.contains(part), "{part}");
    }
    // Each of three images once, with two heads for each of two runs.
    let samples = html
        .split("id=\"samples\"")
        .nth(1)
        .unwrap()
        .split("</section>")
        .next()
        .unwrap();
    assert_eq!(samples.matches("class=\"picture pixels\"").count(), 3);
    assert_eq!(samples.matches("patches looked at").count(), 2 * 3 * 2 * 2);
    // The same again is identical byte for byte.
    workspace.kvt(&report).assert().success();
    assert_eq!(workspace.read("new/both.html"), html);

    // A single run, from its folder: its images are not needed.
    fs_err::rename(workspace.path("data"), workspace.path("gone")).unwrap();
    workspace.kvt(&["report", "knn"]).assert().success();
    let html = workspace.read("knn/report.html");
    assert!(html.contains("<title>knn</title>") && !html.contains("id=\"comparison\""));
    assert!(!html.contains("data:image/"));
    let error = workspace.error(&["report", "knn", "--samples", "2", "--checkpoint", "last"]);
    assert!(
        error.contains("the images of run `knn` cannot be read: no folder `data/val`")
            && error.contains("; say where they are with `--data DIR`"),
        "{error}"
    );
    // The images are found in the given folder.
    let moved = [
        "report",
        "knn",
        "--data",
        "gone/val",
        "--checkpoint",
        "last",
    ];
    workspace.kvt(&moved).assert().success();
    assert!(
        workspace
            .read("knn/report.html")
            .contains("images of <code>gone/val</code>")
    );
}

/// Every run draws its curves, and at its end a confusion matrix, which is that of `kvt eval`.
#[test]
fn a_run_reports_itself() {
    let workspace = Workspace::with_data(6, 4);
    let train = ["train", "tiny.toml", "--set"];
    let said = workspace
        .kvt(&[&train[..], &["report.auto=true"]].concat())
        .output()
        .unwrap();
    let said = String::from_utf8(said.stderr).unwrap();
    assert!(said.contains("curves are in `run/report.html`\n"), "{said}");
    let mut files = workspace.entries("run/report");
    files.sort();
    let tables = ["classes.csv", "confusion.csv", "confusion.png"];
    let plots = ["loss.png", "loss.svg", "top1.png", "top1.svg"];
    assert_eq!(files, [&tables[..], &plots].concat());
    let html = workspace.read("run/report.html");
    assert!(html.contains("class=\"matrix\"") && html.contains("checkpoint <code>best</code>"));
    let eval = ["eval", "--run", "run", "--out", "judged"];
    workspace.kvt(&eval).assert().success();
    for table in &tables[..2] {
        let own = workspace.read(&format!("run/report/{table}"));
        assert_eq!(own, workspace.read(&format!("judged/{table}")), "{table}");
    }
    // The configuration of the tests turns it off.
    workspace
        .kvt(&[&train[..], &["run.dir=silent"]].concat())
        .assert()
        .success();
    assert!(!workspace.path("silent/report.html").exists());
}

/// A DINO run has no classes to be judged by, but its class token has attention maps.
#[test]
fn a_report_of_dino() {
    let workspace = Workspace::with_data(6, 2);
    let mut train = vec!["train", "tiny.toml", "--set", "train.epochs=1"];
    for key in [
        "task=dino",
        "dino.out_dim=12",
        "dino.hidden_dim=20",
        "dino.bottleneck_dim=8",
        "dino.local_views=0",
    ] {
        train.extend(["--set", key]);
    }
    workspace.kvt(&train).assert().success();
    let report = ["report", "run", "--samples", "2", "--checkpoint", "last"];
    workspace.kvt(&report).assert().success();
    let html = workspace.read("run/report.html");
    assert!(html.contains("k-NN top-1") && html.contains("patches looked at"));
    assert!(!html.contains("class=\"guess"));
    let error = workspace.error(&["report", "run", "--metric", "top1"]);
    assert!(
        error.contains("no run is evaluated by `top1`, but by `feature_std`, `knn`"),
        "{error}"
    );
    assert_eq!(workspace.read("run/report.html"), html);
    let error = workspace.error(&[&report[..], &["--eval"]].concat());
    assert!(
        error.contains("has learned features, not classes"),
        "{error}"
    );
}
