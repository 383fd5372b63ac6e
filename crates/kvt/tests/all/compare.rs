//! `kvt compare`.

use kvt_train::run::{Event, RunDir};
use serde_json::Value;

use crate::support::{Workspace, steps};

#[test]
fn two_configurations_with_two_seeds_each() {
    let workspace = Workspace::with_data(6, 4);
    workspace.write(
        "dense.toml",
        "base = \"tiny.toml\"\n\n[run]\ndir = \"runs/dense\"\n",
    );
    workspace.write(
        "knn.toml",
        "base = \"tiny.toml\"\n\n[model.attention]\nkind = \"knn\"\n\n[run]\ndir = \"runs/knn\"\n",
    );
    let arguments = [
        "compare",
        "dense.toml",
        "knn.toml",
        "--seeds",
        "2",
        "--output",
        "cmp",
    ];
    let runs = [
        "runs/dense-seed3",
        "runs/dense-seed4",
        "runs/knn-seed3",
        "runs/knn-seed4",
    ];
    let compare = || {
        let output = workspace.kvt(&arguments).assert().success();
        let printed = String::from_utf8(output.get_output().stdout.clone()).unwrap();
        let files = ["table.md", "table.csv", "table.json"];
        let tables = files.map(|file| workspace.read(&format!("cmp/{file}")));
        (printed, tables)
    };
    let times = || runs.map(|run| workspace.log(run));

    let (printed, tables) = compare();
    for text in [&printed, &tables[0], &tables[1]] {
        assert!(text.contains("dense") && text.contains("knn"), "{text}");
    }
    let table: Value = serde_json::from_str(&tables[2]).unwrap();
    let labels: Vec<&Value> = table["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["label"])
        .collect();
    assert_eq!(labels, ["dense", "knn"]);
    assert!(
        table["rows"]
            .as_array()
            .unwrap()
            .iter()
            .all(|r| r["runs"] == 2)
    );
    let plots = |ending: &str| {
        fs_err::read_dir(workspace.path("cmp"))
            .unwrap()
            .filter(|entry| {
                let path = entry.as_ref().unwrap().path();
                path.extension().is_some_and(|found| found == ending)
            })
            .count()
    };
    assert!(plots("png") > 0 && plots("svg") > 0);

    let before = times();
    assert_eq!(compare(), (printed, tables));
    for (before, after) in before.iter().zip(&times()) {
        // Including its times: a repeated run would have different ones.
        assert_eq!(steps(before), steps(after));
    }

    // Finished runs are read without changes, and keep their labels.
    let mut read = vec!["compare", "--output", "read"];
    read.extend(runs);
    workspace.kvt(&read).assert().success();
    assert_eq!(
        workspace.read("read/table.md"),
        workspace.read("cmp/table.md")
    );
}

/// Configurations are compared as the runs of a sweep are: on several devices, with the tests of pairs, a failure at the end.
#[test]
fn configurations_are_a_sweep_without_a_file() {
    let workspace = Workspace::with_data(6, 4);
    for (name, more) in [
        ("dense", ""),
        ("knn", "[model.attention]\nkind = \"knn\"\n"),
        ("broken", "[init]\nweights = \"missing.safetensors\"\n"),
    ] {
        let text = format!("base = \"tiny.toml\"\n{more}\n[run]\ndir = \"runs/{name}\"\n");
        workspace.write(&format!("{name}.toml"), text);
    }
    let both = ["compare", "dense.toml", "knn.toml", "--output", "cmp"];
    let plan = [&both[..], &["--dry-run"]].concat();
    let plan = workspace.kvt(&plan).assert().success();
    let [plan, said] = [&plan.get_output().stdout, &plan.get_output().stderr]
        .map(|bytes| String::from_utf8(bytes.clone()).unwrap());
    assert!(
        plan.contains("knn-seed3") && plan.contains("2 runs"),
        "{plan}"
    );
    // What takes its time is named before it begins.
    let lines = "dense (1 of 2): measuring a step\nknn (2 of 2): measuring a step\n";
    assert!(said.contains(lines), "{said}");
    // A device that no build here has is refused once, not by every run.
    let elsewhere = [&both[..], &["--device", "rocm:255"]].concat();
    let output = workspace.kvt(&elsewhere).assert().code(1);
    let said = String::from_utf8(output.get_output().stderr.clone()).unwrap();
    let lines = said.lines().filter(|line| line.contains("rocm"));
    assert_eq!(lines.count(), 1, "{said}");
    assert!(!workspace.path("runs").exists());

    let devices = [&both[..], &["--devices", "cpu,cpu"]].concat();
    let output = workspace.kvt(&devices).assert().success();
    let said = String::from_utf8(output.get_output().stderr.clone()).unwrap();
    // Sixteen patches and a class token.
    assert!(
        said.contains("knn-seed3 (2 of 2): ")
            && said.contains(" parameters, 17 of 17 keys per query, 2 epochs of 3 steps on cpu"),
        "{said}"
    );
    let printed = String::from_utf8(output.get_output().stdout.clone()).unwrap();
    assert!(printed.contains("knn minus dense"), "{printed}");
    let pairs = workspace.read("cmp/pairs.csv");
    assert!(
        pairs.lines().nth(1).unwrap().starts_with("dense,knn,1,"),
        "{pairs}"
    );
    let cells = workspace.read("cmp/cells.csv");
    assert!(
        cells.contains("kvt train knn.toml --set seed=3 --run-dir runs/knn"),
        "{cells}"
    );
    let before = workspace.read("runs/knn/log.jsonl");
    // Runs that are finished need no device.
    workspace.kvt(&elsewhere).assert().success();
    for devices in ["rocm:255", "cpu,rocm:255"] {
        let elsewhere = [&both[..], &["--devices", devices]].concat();
        workspace.kvt(&elsewhere).assert().success();
    }
    // To be judged they need it. Without it they are named, and their numbers are in the table all the same.
    for file in [
        "runs/dense/predictions.csv",
        "runs/knn/predictions.csv",
        "cmp/table.csv",
    ] {
        fs_err::remove_file(workspace.path(file)).unwrap();
    }
    let output = workspace.kvt(&elsewhere).assert().code(1);
    let said = String::from_utf8(output.get_output().stderr.clone()).unwrap();
    let named =
        "error: runs `dense-seed3`, `knn-seed3` failed: it is trained, but was not judged: ";
    assert!(said.contains(named) && said.contains("rocm"), "{said}");
    assert_eq!(workspace.read("cmp/table.csv").lines().count(), 3);
    workspace.kvt(&both).assert().success();

    let refused = |arguments: &[&str]| {
        let output = workspace.kvt(arguments).assert().code(1);
        String::from_utf8(output.get_output().stderr.clone()).unwrap()
    };
    let said = refused(&[&both[..], &["broken.toml"]].concat());
    assert!(
        said.contains("error: run `broken-seed3` failed: ")
            && said.contains("next: kvt report runs/dense runs/knn\n"),
        "{said}"
    );
    let said = refused(&["compare", "broken.toml"]);
    assert_eq!(said.matches("missing.safetensors").count(), 1, "{said}");
    let said = refused(&["compare", "broken.toml", "--seeds", "2"]);
    assert!(
        said.contains("error: runs `broken-seed3`, `broken-seed4` failed: "),
        "{said}"
    );
    assert_eq!(workspace.read("runs/knn/log.jsonl"), before);
    let table = workspace.read("cmp/table.csv");
    assert_eq!(table.lines().count(), 3, "{table}");

    // One that another process trains is not done, and here there is nothing else to do.
    let held = RunDir::create(&workspace.path("runs/held"), false).unwrap();
    workspace.write(
        "held.toml",
        "base = \"tiny.toml\"\n[run]\ndir = \"runs/held\"\n",
    );
    let said = refused(&["compare", "dense.toml", "held.toml", "--output", "held"]);
    let holder = format!(
        "error: run `held-seed3` is trained by process {} on `",
        std::process::id()
    );
    assert!(said.contains(&holder), "{said}");
    drop(held);

    // The others are compared without a file that is damaged. The pictures of another metric are not of this table.
    workspace.write("runs/knn/predictions.csv", "garbage");
    let loss = [&both[..], &["--metric", "loss", "--as-is"]].concat();
    let output = workspace.kvt(&loss).assert().success();
    let said = String::from_utf8(output.get_output().stderr.clone()).unwrap();
    assert!(
        said.contains("warning: `runs/knn/predictions.csv`: it is not a table of "),
        "{said}"
    );
    let pairs = workspace.read("cmp/pairs.csv");
    assert!(pairs.lines().nth(1).unwrap().ends_with(",,,"), "{pairs}");
    assert!(workspace.path("cmp/loss.svg").exists() && !workspace.path("cmp/top1.svg").exists());

    // A run that is finished already, beside one that is trained.
    let mixed = [
        "compare",
        "runs/dense",
        "knn.toml",
        "--output",
        "mixed",
        "--as-is",
    ];
    workspace.kvt(&mixed).assert().success();
    assert_eq!(workspace.read("mixed/table.csv"), table);
}

/// The judgement of a run's earlier weights does not outlive them, numbers of images mean nothing in another folder, and a device that
/// is not there uses up no run.
#[cfg(unix)]
#[test]
fn what_is_tested_is_of_the_last_weights_and_of_the_same_images() {
    let workspace = Workspace::with_data(6, 4);
    std::os::unix::fs::symlink(workspace.path("data"), workspace.path("other")).unwrap();
    for (name, more) in [
        ("one", ""),
        ("two", ""),
        ("three", "[data]\npath = \"other\"\n"),
    ] {
        let text = format!("base = \"tiny.toml\"\n{more}\n[run]\ndir = \"runs/{name}\"\n");
        workspace.write(&format!("{name}.toml"), text);
    }
    let compare = [
        "compare",
        "one.toml",
        "two.toml",
        "three.toml",
        "--output",
        "cmp",
    ];
    let unknown = [&compare[..], &["--devices", "cpu,bogus"]].concat();
    for arguments in [&unknown[..], &[&unknown[..], &["--dry-run"]].concat()[..]] {
        let error = workspace.error(arguments);
        assert!(error.contains("`bogus` is not a device"), "{error}");
    }
    assert!(!workspace.path("runs").exists());

    // One of two epochs.
    let begun = [&compare[..], &["--set", "train.max_steps=3"]].concat();
    workspace.kvt(&begun).assert().success();
    let pairs = workspace.read("cmp/pairs.csv");
    let rows: Vec<_> = pairs.lines().skip(1).collect();
    let are_empty: Vec<_> = rows.iter().map(|row| row.ends_with(",,,")).collect();
    assert_eq!(are_empty, [false, true], "{pairs}");

    let judged = workspace.path("runs/one/predictions.csv");
    assert!(judged.exists());
    workspace
        .kvt(&["train", "one.toml", "--resume"])
        .assert()
        .success();
    assert!(!judged.exists());
    // Where nothing is left to train, it stays; an older checkpoint has other weights, even if nothing is trained from there.
    workspace.kvt(&compare).assert().success();
    assert!(judged.exists());
    let again = ["train", "one.toml", "--resume"];
    let said = workspace.kvt(&again).assert().success();
    let said = String::from_utf8(said.get_output().stderr.clone()).unwrap();
    assert!(said.contains("nothing left to train"), "{said}");
    assert!(judged.exists());
    let back = [
        "train",
        "one.toml",
        "--resume-from",
        "step-00000003",
        "--set",
        "train.max_steps=3",
    ];
    workspace.kvt(&back).assert().success();
    assert!(!judged.exists());
}

/// A run that ends within an epoch has its last evaluation in the column of that epoch. `epochs.csv` has no row: the run may go on.
#[test]
fn a_run_that_ends_within_its_first_epoch_is_in_the_table() {
    let workspace = Workspace::with_data(6, 4);
    let last = |arguments: &[&str]| {
        let compare = [&["compare", "--output", "cmp"], arguments].concat();
        workspace.kvt(&compare).assert().success();
        let table: Value = serde_json::from_str(&workspace.read("cmp/table.json")).unwrap();
        assert_eq!(table["epochs"], serde_json::json!([1]), "{table}");
        table["rows"][0]["last"]["mean"].as_f64().unwrap()
    };
    // An epoch has three updates.
    let trained = last(&["tiny.toml", "--set", "train.max_steps=2"]);
    let log = workspace.log("run");
    let evals: Vec<_> = log
        .iter()
        .filter_map(|event| match event {
            Event::Eval(eval) => eval.metrics.get("top1"),
            _ => None,
        })
        .collect();
    assert_eq!(evals.len(), 1);
    assert!((evals[0] - trained).abs() < 1e-9, "{evals:?} {trained}");
    assert_eq!(last(&["run"]).to_bits(), trained.to_bits());
    assert_eq!(workspace.read("run/epochs.csv").lines().count(), 1);
    let report = ["report", "run", "--output", "report.html"];
    workspace.kvt(&report).assert().success();
}

/// Runs are compared by the metric of their task, if it is the same for all.
#[test]
fn runs_are_compared_by_what_they_are_judged_by() {
    let workspace = Workspace::with_data(6, 2);
    let short = ["train", "tiny.toml", "--set", "train.epochs=1"];
    workspace.kvt(&short).assert().success();
    for run in ["run.dir=one", "run.dir=two"] {
        let mut arguments = short.to_vec();
        for key in [
            "task=dino",
            "dino.out_dim=12",
            "dino.hidden_dim=20",
            "dino.bottleneck_dim=8",
            "dino.local_views=0",
            run,
        ] {
            arguments.extend(["--set", key]);
        }
        workspace.kvt(&arguments).assert().success();
    }
    let metric = |arguments: &[&str]| {
        let all = [&["compare", "--output", "cmp"], arguments].concat();
        workspace.kvt(&all).assert().success();
        let table: Value = serde_json::from_str(&workspace.read("cmp/table.json")).unwrap();
        let has_value = !table["rows"][0]["last"].is_null();
        (table["metric"].as_str().unwrap().to_owned(), has_value)
    };
    let found = |name: &str| (name.to_owned(), true);
    assert_eq!(metric(&["one", "two"]), found("knn"));
    assert_eq!(metric(&["run", "one"]), found("top1"));
    let named = ["one", "two", "--metric", "feature_std"];
    assert_eq!(metric(&named), found("feature_std"));
    // One that none of them has is refused before anything is written.
    let error = workspace.error(&["compare", "one", "two", "--metric", "top1", "--out", "new"]);
    insta::assert_snapshot!(error, @"error: no run is evaluated by `top1`, but by `feature_std`, `knn`");
    assert!(!workspace.path("new").exists());
    let error = workspace.error(&["compare", "run", "--metric", "micro_f1", "--out", "new"]);
    assert!(error.ends_with("; did you mean `macro_f1`?\n"), "{error}");
}

/// Nothing is trained for a table that cannot be made.
#[test]
fn a_metric_that_no_run_can_have_is_refused_before_training() {
    let workspace = Workspace::with_data(6, 2);
    let sweep = "metric = \"knn\"\n[[run]]\nconfig = \"tiny.toml\"\n";
    workspace.write("sweep.toml", sweep);
    for arguments in [
        &["compare", "tiny.toml", "--metric", "miou"][..],
        &["compare", "tiny.toml", "--metric", "miou", "--dry-run"],
        &["compare", "sweep.toml"],
        &["config", "check", "sweep.toml"],
    ] {
        let error = workspace.error(arguments);
        assert!(
            error.contains("no run is evaluated by `") && error.contains("`, but by `loss`, "),
            "{error}"
        );
    }
    assert!(!workspace.path("run").exists() && !workspace.path("runs").exists());
}

/// Only seeds of one configuration are averaged, and a run counts once.
#[test]
fn runs_of_one_name_are_not_one_model() {
    let workspace = Workspace::with_data(6, 2);
    for (dir, more) in [
        ("x/photos-seed3", &[][..]),
        ("x/photos-seed4", &["--set", "seed=4"]),
        ("y/photos", &["--set", "optim.lr=1e-5"]),
    ] {
        let train = [
            "train",
            "tiny.toml",
            "--run-dir",
            dir,
            "--set",
            "train.epochs=1",
        ];
        workspace
            .kvt(&[&train[..], more].concat())
            .assert()
            .success();
    }
    let compare = |runs: &[&str]| {
        let arguments = [&["compare", "--out", "cmp"], runs].concat();
        let output = workspace.kvt(&arguments).assert().success();
        let said = String::from_utf8(output.get_output().stderr.clone()).unwrap();
        let table: Value = serde_json::from_str(&workspace.read("cmp/table.json")).unwrap();
        let rows = table["rows"].as_array().unwrap().iter();
        let rows = rows.map(|row| format!("{}: {}", row["label"].as_str().unwrap(), row["runs"]));
        (rows.collect::<Vec<_>>().join(", "), said)
    };
    let (rows, _) = compare(&["x/photos-seed3", "x/photos-seed4"]);
    assert_eq!(rows, "photos: 2");
    let all = ["x/photos-seed3", "x/photos-seed4", "y/photos"];
    let (rows, said) = compare(&all);
    assert_eq!(rows, "x/photos: 2, y/photos: 1");
    assert!(
        said.contains("runs called `photos` differ in `optim.lr`: they are not averaged"),
        "{said}"
    );
    // The title says what is compared, whatever it is.
    let svg = workspace.read("cmp/top1.svg");
    assert!(svg.contains("x/photos and y/photos"), "{svg}");
    let report = [&["report", "--out", "r.html"], &all[..]].concat();
    let output = workspace.kvt(&report).assert().success();
    let said = String::from_utf8(output.get_output().stderr.clone()).unwrap();
    assert!(said.contains("they are not averaged"), "{said}");
    let error = workspace.error(&["compare", "y/photos", "y/../y/photos"]);
    insta::assert_snapshot!(error, @"error: `y/photos` and `y/../y/photos` are both the run in `y/../y/photos`: name a run once, and give each configuration its own `run.dir`");
    let config = [
        "compare",
        "tiny.toml",
        "y/photos",
        "--set",
        "run.dir=y/photos",
    ];
    let error = workspace.error(&config);
    assert!(error.contains("are both the run in `y/photos`"), "{error}");
}

/// A run's name may have what is a command to a terminal, markup, or forbidden in XML.
#[cfg(unix)]
#[test]
fn names_of_runs_are_shown_letter_by_letter() {
    let workspace = Workspace::with_data(6, 2);
    let name = "a\u{1b}[31m<b>\u{202e}|c";
    let train = [
        "train",
        "tiny.toml",
        "--set",
        "train.epochs=1",
        "--run-dir",
        name,
    ];
    workspace.kvt(&train).assert().success();
    let compare = ["compare", name, "--out", "cmp"];
    let output = workspace.kvt(&compare).assert().success();
    let output = output.get_output();
    let acts = |text: &str| text.contains(['\u{1b}', '\u{202e}']);
    for printed in [&output.stdout, &output.stderr] {
        let printed = String::from_utf8(printed.clone()).unwrap();
        assert!(!acts(&printed), "{printed:?}");
    }
    let svg = workspace.read("cmp/top1.svg");
    assert!(
        !acts(&svg) && svg.contains("a\\u001b[31m&lt;b&gt;\\u202e|c"),
        "{svg}"
    );
    let table = workspace.read("cmp/table.md");
    let cell = "| a\\\\u001b\\[31m\\<b>\\\\u202e\\|c |";
    assert!(!acts(&table) && table.contains(cell), "{table}");
    // Programs get the name itself.
    let table: Value = serde_json::from_str(&workspace.read("cmp/table.json")).unwrap();
    assert_eq!(table["rows"][0]["label"], name);
    assert!(
        workspace
            .read("cmp/table.csv")
            .contains(&format!("\n{name},1,"))
    );
}

/// The folder of the first run does not exist yet when the command starts.
#[test]
fn images_generated_on_first_use_are_the_same_for_both() {
    let workspace = Workspace::with_data(6, 2);
    for (name, kind) in [("dense", "dense"), ("knn", "knn")] {
        let text = format!(
            "base = \"tiny.toml\"\n\n[run]\ndir = \"runs/{name}\"\n\n[model.attention]\nkind = \"{kind}\"\n\n[data]\nkind = \"shapes\"\n\
             path = \"generated\"\n\n[data.shapes]\nclasses = 3\ntrain_per_class = 4\nval_per_class = 2\nimage_size = 16\n"
        );
        workspace.write(&format!("{name}.toml"), text);
    }
    let compare = ["compare", "dense.toml", "knn.toml", "--output", "cmp"];
    let output = workspace.kvt(&compare).assert().success();
    let said = String::from_utf8_lossy(&output.get_output().stderr);
    assert!(said.contains("generating 18 images"), "{said}");
    assert!(!said.contains("different folders"), "{said}");
}
