//! `kvt compare SWEEP.toml`: many runs as one job.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use kvt_tools::sweep::Sweep;
use kvt_train::run::Event;
use serde_json::Value;

use crate::documents::root;
use crate::support::{KVT, Workspace};

/// Dense and k-NN attention with two seeds each.
const SWEEP: &str = r#"title = "Tiny models"
seeds = [3, 4]
set = ["train.epochs=2"]
pairs = [["dense", "knn"]]

[[run]]
name = "dense"
config = "tiny.toml"

[[run]]
name = "knn"
config = "tiny.toml"
set = ["model.attention.kind=knn", "model.attention.neighbors=3"]
"#;

const CELLS: [&str; 4] = ["dense-seed3", "dense-seed4", "knn-seed3", "knn-seed4"];

fn dir(cell: &str) -> String {
    format!("runs/sweep/runs/{cell}")
}

/// The results of a cell, without times.
fn measured(workspace: &Workspace, cell: &str) -> Vec<(u32, String)> {
    let events = workspace.log(&dir(cell));
    let evals = events.iter().filter_map(|event| match event {
        Event::Eval(eval) => Some((eval.epoch, format!("{:?}", eval.metrics))),
        _ => None,
    });
    evals.collect()
}

#[test]
fn finished_runs_are_left_alone_and_tables_are_made() {
    let workspace = Workspace::with_data(6, 4);
    workspace.write("sweep.toml", SWEEP);
    let compare = || {
        let output = workspace.kvt(&["compare", "sweep.toml"]).assert().success();
        let output = output.get_output();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (text(&output.stdout), text(&output.stderr))
    };
    let (printed, said) = compare();
    assert!(
        said.contains("dense-seed3 (1 of 4) begins on cpu"),
        "{said}"
    );
    let page = workspace.read("runs/sweep/table.md");
    for text in [
        "# Tiny models\n",
        "| knn minus dense |",
        "- training took 1 min: cpu (",
        "- 18 training images per epoch, 12 validation images, 2 epochs, f32, seeds 3, 4: dense, knn\n",
        "`kvt train tiny.toml --set train.epochs=2 --set model.attention.kind=knn --set model.attention.neighbors=3 --set seed=4 \
         --run-dir runs/sweep/runs/knn-seed4`",
    ] {
        assert!(page.contains(text), "{text} {page}");
    }
    let table: Value = serde_json::from_str(&workspace.read("runs/sweep/table.json")).unwrap();
    assert_eq!(table["rows"][1]["label"], "knn");
    assert_eq!(table["rows"][1]["runs"], 2);

    // The table of a cell agrees with its log and with `kvt eval`.
    let mut last = Vec::new();
    for cell in CELLS {
        let predictions = workspace.read(&format!("{}/predictions.csv", dir(cell)));
        let rows: Vec<Vec<u32>> = predictions
            .lines()
            .skip(1)
            .map(|line| {
                line.split(',')
                    .map(|field| field.parse().unwrap())
                    .collect()
            })
            .collect();
        let right = rows.iter().filter(|row| row[1] == row[2]).count();
        let run = dir(cell);
        let eval = workspace.json(&["eval", "--run", &run, "--checkpoint", "last", "--json"]);
        assert_eq!(rows.len(), 12);
        assert!((eval["top1"].as_f64().unwrap() - 100.0 * right as f64 / 12.0).abs() < 1e-9);
        last.push(rows);
    }
    let pairs = workspace.read("runs/sweep/pairs.csv");
    let line = pairs.lines().nth(1).unwrap();
    assert!(line.starts_with("dense,knn,2,"), "{line}");
    let alone = |first: &[Vec<u32>], second: &[Vec<u32>]| {
        let both = first.iter().zip(second);
        let alone = both.filter(|(a, b)| a[1] == a[2] && b[1] != b[2]);
        alone.count()
    };
    let counts = format!(
        ",3 4,{} {},{} {},",
        alone(&last[0], &last[2]),
        alone(&last[1], &last[3]),
        alone(&last[2], &last[0]),
        alone(&last[3], &last[1])
    );
    assert!(line.contains(&counts), "{line} {counts}");

    // The same again trains nothing. A run that is finished did not crash, whatever it did before.
    workspace.write(&format!("{}/crash.txt", dir("knn-seed4")), "step 1\n");
    let logs = || CELLS.map(|cell| workspace.read(&format!("{}/log.jsonl", dir(cell))));
    let before = (logs(), page);
    let (again, said) = compare();
    assert_eq!(again, printed);
    assert!(
        said.contains("knn-seed4 (4 of 4): already finished"),
        "{said}"
    );
    assert_eq!((logs(), workspace.read("runs/sweep/table.md")), before);
    // Compared as ordinary runs, they give the same table.
    let dirs = CELLS.map(dir);
    let mut read = vec!["compare", "--output", "read"];
    read.extend(dirs.iter().map(String::as_str));
    workspace.kvt(&read).assert().success();
    assert_eq!(
        workspace.read("read/table.csv"),
        workspace.read("runs/sweep/table.csv")
    );
}

/// What the table of an earlier sweep has is not trained, and the numbers are the same.
#[test]
fn an_earlier_table_is_known() {
    let workspace = Workspace::with_data(6, 4);
    workspace.write("sweep.toml", SWEEP);
    let compare = |more: &[&str]| {
        let all = [&["compare", "sweep.toml", "--output"][..], more].concat();
        workspace.kvt(&all).assert().success();
    };
    compare(&["whole"]);
    let cells = workspace.read("whole/cells.csv");
    let some = cells.lines().filter(|line| !line.starts_with("dense,4,"));
    let some: String = some.map(|line| format!("{line}\n")).collect();
    workspace.write("known.csv", some);
    compare(&["part", "--known", "known.csv"]);
    assert_eq!(workspace.entries("part/runs"), ["dense-seed4"]);
    let rows = |folder: &str| {
        let table = workspace.read(&format!("{folder}/table.json"));
        let table: Value = serde_json::from_str(&table).unwrap();
        [0_usize, 1]
            .map(|row| ["label", "runs", "last", "best"].map(|key| table["rows"][row][key].clone()))
    };
    assert_eq!(rows("part"), rows("whole"));
    // All but McNemar's test, which needs the predictions.
    let tests = |folder: &str| {
        let pairs = workspace.read(&format!("{folder}/pairs.csv"));
        let line = pairs.lines().nth(1).unwrap().to_owned();
        line.split(',')
            .take(13)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(tests("part"), tests("whole"));
    let page = workspace.read("part/table.md");
    let line = "- not trained now, but taken from `known.csv`: dense-seed3, knn-seed3, knn-seed4\n";
    assert!(page.contains(line), "{page}");
    assert!(page.contains("- knn-seed3: known\n"), "{page}");
    // The table that says so is as good.
    compare(&["again", "--known", "part/cells.csv"]);
    assert!(!workspace.path("again/runs").exists());
    assert_eq!(rows("again"), rows("whole"));

    let twice = format!("{cells}{}\n", cells.lines().last().unwrap());
    for (table, expected) in [
        (
            cells.replace("last top1", "last loss"),
            "it is not a table of `run,seed,state,",
        ),
        (
            cells.replace("\ndense,4,", "\nother,9,"),
            "it has cells that this sweep does not have: `other-seed9` (",
        ),
        (
            cells.replace("neighbors=3", "neighbors=4"),
            "`knn-seed3` was trained by `kvt train tiny.toml --set train.epochs=2 --set model.attention.kind=knn --set \
             model.attention.neighbors=4 --set seed=3`, and is `",
        ),
        (
            cells.replace(",finished,2,", ",finished,3,"),
            "`dense-seed3` was trained for 3 epochs, and is for 2 here",
        ),
        (
            cells.replacen("dense,3,", "dense,x,", 1),
            "line 2 cannot be read",
        ),
        (twice, "`knn-seed4` is in `known.csv`, too"),
    ] {
        workspace.write("known.csv", table);
        let error =
            workspace.error(&["compare", "sweep.toml", "--known", "known.csv", "--dry-run"]);
        assert!(
            error.contains("`known.csv`: ") && error.contains(expected),
            "{expected}: {error}"
        );
    }
    let error = workspace.error(&["compare", "tiny.toml", "--known", "known.csv"]);
    assert!(
        error.contains("only the file of a sweep takes such tables"),
        "{error}"
    );
}

#[test]
fn a_killed_sweep_goes_on_to_the_same_numbers() {
    let workspace = Workspace::with_data(6, 4);
    let sweep = SWEEP.replace(
        "train.epochs=2",
        "train.epochs=20\", \"checkpoint.every_steps=1",
    );
    workspace.write("sweep.toml", &sweep);
    let one = ["compare", "sweep.toml", "--output", "whole"];
    workspace.kvt(&one).assert().success();
    let mut child = Command::new(KVT)
        .current_dir(workspace.path(""))
        .args(["compare", "sweep.toml"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(300);
    // In the second of the four runs.
    let last = workspace.path(&format!("{}/checkpoints/last", dir("dense-seed4")));
    while !last.exists() {
        assert!(Instant::now() < deadline && child.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let plan = workspace
        .kvt(&["compare", "sweep.toml", "--dry-run"])
        .assert()
        .success();
    let plan = String::from_utf8(plan.get_output().stdout.clone()).unwrap();
    let state = |cell: &str| {
        let line = plan
            .lines()
            .find(|line| line.trim_start().starts_with(cell));
        line.unwrap_or_else(|| panic!("{plan}")).to_owned()
    };
    assert!(state("dense-seed3").contains("finished"), "{plan}");
    assert!(state("dense-seed4").contains("stopped after"), "{plan}");
    assert!(state("knn-seed3").contains("to be trained"), "{plan}");
    // Finished runs give an estimate for the rest.
    assert!(state("dense-seed3").trim_end().ends_with('-'), "{plan}");
    assert!(state("knn-seed3").trim_end().ends_with(" 1 min"), "{plan}");
    let output = workspace.kvt(&["compare", "sweep.toml"]).assert().success();
    let said = String::from_utf8(output.get_output().stderr.clone()).unwrap();
    assert!(said.contains("dense-seed4 (2 of 4) continues"), "{said}");
    for cell in CELLS {
        let evals = |run: &str| {
            let events = workspace.log(run);
            let evals = events.iter().filter_map(|event| match event {
                Event::Eval(eval) => Some(format!("{eval:?}")),
                _ => None,
            });
            evals.collect::<Vec<_>>()
        };
        assert_eq!(
            evals(&dir(cell)),
            evals(&format!("whole/runs/{cell}")),
            "{cell}"
        );
        let predictions = |run: &str| workspace.read(&format!("{run}/predictions.csv"));
        assert_eq!(
            predictions(&dir(cell)),
            predictions(&format!("whole/runs/{cell}"))
        );
    }
}

/// Ctrl-C stops the run that is being trained, and no other run starts.
#[cfg(unix)]
#[test]
fn an_interrupted_sweep_stops_and_goes_on() {
    let workspace = Workspace::with_data(6, 4);
    let sweep = SWEEP.replace(
        "train.epochs=2",
        "train.epochs=20\", \"checkpoint.every_steps=1",
    );
    workspace.write("sweep.toml", sweep);
    let mut command = crate::resume::program();
    command.args(["compare", "sweep.toml"]);
    let mut child = crate::resume::Running::start_as(&mut command, &workspace);
    let last = workspace.path(&format!("{}/checkpoints/last", dir("dense-seed4")));
    child.wait_until(&workspace, || last.exists());
    child.signal("INT");
    assert_eq!(child.wait().code(), Some(130));
    let said = workspace.read("stderr.txt");
    assert!(
        said.ends_with("stopped; the same command continues from here\n"),
        "{said}"
    );
    assert!(!workspace.path(&dir("knn-seed3")).exists());
    workspace.kvt(&["compare", "sweep.toml"]).assert().success();
    assert_eq!(measured(&workspace, "dense-seed4").len(), 20);
}

#[test]
fn one_that_fails_does_not_keep_the_others() {
    let workspace = Workspace::with_data(6, 4);
    let sweep = r#"set = ["train.epochs=1"]
seeds = [3]

[[run]]
name = "broken"
config = "tiny.toml"
set = ["init.weights=missing.safetensors"]

[[run]]
name = "crash"
config = "tiny.toml"
set = ["optim.lr=1e30", "optim.clip_norm=0.0"]

[[run]]
name = "good"
config = "tiny.toml"
"#;
    workspace.write("sweep.toml", sweep);
    let error = workspace.error(&["compare", "sweep.toml"]);
    assert!(
        error.starts_with("error: run `broken-seed3` failed: ")
            && error.contains("missing.safetensors"),
        "{error}"
    );
    assert_eq!(measured(&workspace, "good-seed3").len(), 1);
    let crash = workspace.read(&format!("{}/crash.txt", dir("crash-seed3")));
    assert!(crash.starts_with("step "), "{crash}");
    let cells = workspace.read("runs/sweep/cells.csv");
    assert!(
        cells.contains("\nbroken,3,to be trained,1,,,,,0,")
            && cells.contains("\ncrash,3,crashed,1,"),
        "{cells}"
    );
    // A crash is a result: it is not repeated, and it is not in itself a failure.
    let without = sweep.replace("set = [\"init.weights=missing.safetensors\"]\n", "");
    workspace.write("sweep.toml", without);
    let output = workspace.kvt(&["compare", "sweep.toml"]).assert().success();
    let said = String::from_utf8(output.get_output().stderr.clone()).unwrap();
    assert!(
        said.contains("crash-seed3 (2 of 3): crashed before: step")
            && said.contains("warning: crash-seed3 crashed"),
        "{said}"
    );
    assert_eq!(measured(&workspace, "broken-seed3").len(), 1);
}

/// The hours of all runs count from the start of the command: one that they leave no time is not begun. What is finished has its table.
#[test]
fn a_sweep_that_is_out_of_time_has_a_table() {
    let workspace = Workspace::with_data(6, 4);
    let sweep = SWEEP.replace("neighbors=3\"", "neighbors=3\", \"train.max_hours=1e-9\"");
    workspace.write("sweep.toml", &sweep);
    let compare = || {
        let output = workspace.kvt(&["compare", "sweep.toml"]).assert();
        let output = output.failure().code(130);
        String::from_utf8(output.get_output().stderr.clone()).unwrap()
    };
    let said = compare();
    let expected = "runs `knn-seed3`, `knn-seed4` are not finished, because `train.max_hours` is over: \
                    the same command continues from here\n";
    assert!(said.ends_with(expected), "{said}");
    assert!(!workspace.path(&dir("knn-seed3")).exists());
    let table: Value = serde_json::from_str(&workspace.read("runs/sweep/table.json")).unwrap();
    assert_eq!(table["rows"].as_array().unwrap().len(), 1);
    let cells = workspace.read("runs/sweep/cells.csv");
    assert!(cells.contains("\nknn,4,to be trained,"), "{cells}");
    // Without anything that is finished.
    let all = SWEEP.replace(
        "train.epochs=2\"",
        "train.epochs=2\", \"train.max_hours=1e-9\"",
    );
    workspace.write("sweep.toml", all.replace("seeds = [3, 4]", "seeds = [5]"));
    let said = compare();
    let expected = "stopped; the same command continues from here\n";
    assert!(said.ends_with(expected), "{said}");
    // With more time.
    workspace.write("sweep.toml", SWEEP);
    workspace.kvt(&["compare", "sweep.toml"]).assert().success();
}

/// If all runs crashed, that is the result of the sweep.
#[test]
fn a_sweep_of_crashes_has_a_result() {
    let workspace = Workspace::with_data(6, 4);
    let sweep = "[[run]]\nname = \"crash\"\nconfig = \"tiny.toml\"\n\
                 set = [\"optim.lr=1e30\", \"optim.clip_norm=0.0\"]\n";
    workspace.write("sweep.toml", sweep);
    for file in ["table.md", "loss.png", "mine.png"] {
        workspace.write(&format!("runs/sweep/{file}"), "before");
    }
    let output = workspace.kvt(&["compare", "sweep.toml"]).assert().success();
    let said = String::from_utf8(output.get_output().stderr.clone()).unwrap();
    assert_eq!(said.matches("crashed: step").count(), 1, "{said}");
    let cells = workspace.read("runs/sweep/cells.csv");
    assert!(cells.starts_with("run,seed,state,epochs,"), "{cells}");
    assert!(cells.contains("\ncrash,3,crashed,2,"), "{cells}");
    assert!(cells.contains(",last top1,"), "{cells}");
    // What an earlier comparison left is gone, and nothing else.
    let mut files = workspace.entries("runs/sweep");
    files.sort();
    assert_eq!(files, ["cells.csv", "mine.png", "runs"]);
}

/// `train.max_steps` may end a run within an epoch, and a later end continues it from there.
#[test]
fn a_run_that_goes_on_after_its_end_is_judged_again() {
    let workspace = Workspace::with_data(6, 4);
    let sweep = "set = [\"train.epochs=4\"]\n\n[[run]]\nname = \"dense\"\nconfig = \"tiny.toml\"\n";
    workspace.write("sweep.toml", sweep);
    let said = |more: &[&str]| {
        let command = [&["compare", "sweep.toml"][..], more].concat();
        let output = workspace.kvt(&command).assert().success();
        String::from_utf8(output.get_output().stderr.clone()).unwrap()
    };
    let log = || workspace.read(&format!("{}/log.jsonl", dir("dense-seed3")));
    let predictions = format!("{}/predictions.csv", dir("dense-seed3"));
    // An epoch has three updates.
    let short = ["--set", "train.max_steps=4"];
    said(&short);
    assert_eq!(workspace.read(&predictions).lines().count(), 13);
    let before = log();
    let again = said(&short);
    assert!(
        again.contains("dense-seed3 (1 of 1): already finished"),
        "{again}"
    );
    assert_eq!(log(), before);

    // A marker that distinguishes the old weights' predictions from any new ones.
    workspace.write(&predictions, "image,class,predicted\n");
    let on = said(&[]);
    assert!(on.contains("dense-seed3 (1 of 1) continues"), "{on}");
    said(&["--output", "whole"]);
    assert_eq!(
        workspace.read(&predictions),
        workspace.read("whole/runs/dense-seed3/predictions.csv")
    );

    // A finished run warns about settings that it was not trained with, but not about those with which it was resumed.
    let other = "was trained with other settings than these";
    let again = said(&[]);
    assert!(
        again.contains("already finished") && !again.contains(other),
        "{again}"
    );
    let shorter = said(&[&["--output", "whole"][..], &short].concat());
    assert!(
        shorter.contains("already finished")
            && shorter.contains(&format!("{other} (`train.max_steps`: not set -> `4`)")),
        "{shorter}"
    );
    let patient = said(&["--output", "whole", "--set", "train.patience=9"]);
    let expected = format!("{other} (`train.patience`: not set -> `9`)");
    assert!(patient.contains(&expected), "{patient}");
}

#[test]
fn a_run_of_another_configuration_is_refused() {
    let workspace = Workspace::with_data(6, 4);
    workspace.write("sweep.toml", SWEEP);
    workspace.kvt(&["compare", "sweep.toml"]).assert().success();
    let log = || workspace.read(&format!("{}/log.jsonl", dir("knn-seed4")));
    let before = log();
    workspace.write("sweep.toml", SWEEP.replace("neighbors=3", "neighbors=4"));
    let error = workspace.error(&["compare", "sweep.toml"]);
    assert!(
        error.contains("run `knn-seed4` failed") || error.contains("run `knn-seed3` failed"),
        "{error}"
    );
    assert!(
        error.contains("`model.attention.neighbors`: `3` -> `4`"),
        "{error}"
    );
    assert_eq!(log(), before);
    // Their results do not count for this sweep.
    let cells = workspace.read("runs/sweep/cells.csv");
    assert!(cells.contains("\nknn,4,another run,2,,,,,0,"), "{cells}");
}

#[test]
fn several_devices_and_several_processes_share_the_runs() {
    let workspace = Workspace::with_data(6, 4);
    workspace.write("sweep.toml", SWEEP);
    let one = ["compare", "sweep.toml", "--output", "one"];
    workspace.kvt(&one).assert().success();
    let two = [
        "compare",
        "sweep.toml",
        "--devices",
        "cpu,cpu",
        "--output",
        "two",
    ];
    workspace.kvt(&two).assert().success();
    assert_eq!(
        workspace.read("one/table.csv"),
        workspace.read("two/table.csv")
    );
    // Two processes at once: the first to reach a run trains it.
    let start = || {
        Command::new(KVT)
            .current_dir(workspace.path(""))
            .args(["compare", "sweep.toml", "--output", "three"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    };
    let mut both = [start(), start()];
    for child in &mut both {
        child.wait().unwrap();
    }
    let last = ["compare", "sweep.toml", "--output", "three", "--as-is"];
    workspace.kvt(&last).assert().success();
    assert_eq!(
        workspace.read("one/table.csv"),
        workspace.read("three/table.csv")
    );
}

#[test]
fn features_without_labels_are_judged_by_a_linear_layer() {
    let workspace = Workspace::with_data(6, 4);
    let sweep = r#"set = ["train.epochs=1", "task=dino", "dino.out_dim=12", "dino.hidden_dim=20", "dino.bottleneck_dim=8", "dino.local_views=0"]

[[run]]
name = "dino"
config = "tiny.toml"
linear = "none"
"#;
    workspace.write("sweep.toml", sweep);
    workspace.kvt(&["compare", "sweep.toml"]).assert().success();
    let found = workspace.read(&format!("{}/linear.csv", dir("dino-seed3")));
    assert_eq!(found.lines().count(), 101);
    let probe = [
        "probe",
        "--run",
        &dir("dino-seed3"),
        "--checkpoint",
        "last",
        "--method",
        "linear",
        "--crops",
        "none",
        "--output",
        "probe",
    ];
    workspace.kvt(&probe).assert().success();
    assert_eq!(workspace.read("probe/probe.csv"), found);
}

#[test]
fn what_is_wrong_with_a_sweep_is_said() {
    let workspace = Workspace::empty();
    let error = |text: &str| {
        workspace.write("sweep.toml", text);
        workspace.error(&["compare", "sweep.toml"])
    };
    let twice = "[[run]]\nconfig = \"tiny.toml\"\n\n[[run]]\nconfig = \"tiny.toml\"\n";
    for (text, expected) in [
        (
            twice.to_owned(),
            "two runs are called `tiny` and have the seed 3",
        ),
        (
            format!(
                "{0}seeds = [1]\n\n{0}seeds = [2]\nset = [\"train.epochs=3\"]\n",
                &twice[..29]
            ),
            "two runs are called `tiny` and differ in more than their seeds (`train.epochs`: `2` -> `3`",
        ),
        (
            format!("pairs = [[\"tiny\", \"knn\"]]\n{}", &twice[..29]),
            "no run is called `knn`",
        ),
        (
            format!("{}name = \"a b\"\n", &twice[..29]),
            "`a b` cannot be the name of a run",
        ),
        (
            format!("{}set = [\"optim.lrr=1\"]\n", &twice[..29]),
            "unknown key `lrr`",
        ),
        (
            format!("{}set = [\"model.attention.neighbors=3\"]\n", &twice[..29]),
            "run `tiny` sets `model.attention.neighbors`, which its kind of attention does not have",
        ),
        (
            format!("{}seed = 1\n", &twice[..29]),
            "unknown field `seed`",
        ),
        (
            format!("{}linear = \"none\"\n", &twice[..29]),
            "`linear` is only for",
        ),
        (
            format!("metric = \"top2\"\n{}", &twice[..29]),
            "`metric` is `top2`: expected one of loss, top1",
        ),
    ] {
        let error = error(&text);
        assert!(
            error.contains("sweep.toml") && error.contains(expected),
            "{error}"
        );
    }
    workspace.write("sweep.toml", SWEEP);
    let error = workspace.error(&["compare", "sweep.toml", "tiny.toml"]);
    assert!(
        error.contains("is a sweep, which is compared by itself"),
        "{error}"
    );
    let plan = ["compare", "sweep.toml", "--seeds", "3", "--dry-run"];
    let error = workspace.error(&plan);
    assert!(error.contains("no folder `data/train`"), "{error}");
    for class in ["a", "b", "c"] {
        workspace.images(&format!("data/train/{class}"), 6);
        workspace.images(&format!("data/val/{class}"), 4);
    }
    let plan = workspace.kvt(&plan).assert().success();
    let plan = String::from_utf8(plan.get_output().stdout.clone()).unwrap();
    assert!(
        plan.contains("dense-seed5") && plan.contains("knn-seed3") && plan.contains("6 runs"),
        "{plan}"
    );
    let most = u64::MAX.to_string();
    for command in [
        ["compare", "sweep.toml", "--seeds", &most, "--dry-run"],
        ["reproduce", "table2", "--seeds", &most, "--dry-run"],
    ] {
        let output = workspace.kvt(&command).assert().failure().code(2);
        let said = String::from_utf8(output.get_output().stderr.clone()).unwrap();
        assert!(said.contains("is not in 1..=1000"), "{said}");
    }
    workspace.train("run", &["train.epochs=1"]);
    let error = workspace.error(&["compare", "run", "--dry-run"]);
    let expected = "`--dry-run` is for configurations and sweeps: a run's folder is only read";
    assert!(error.contains(expected), "{error}");
}

/// Every sweep of the paper's items, with all configurations that it names.
#[test]
fn the_sweeps_of_the_repository_are_accepted() {
    let workspace = Workspace::empty();
    let mut sweeps = 0;
    for item in fs_err::read_dir(root().join("configs/reproduce")).unwrap() {
        for file in fs_err::read_dir(item.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            let sweep = Sweep::load(&path, &[], None).unwrap_or_else(|error| panic!("{error}"));
            let [scale, item] =
                [path.file_stem(), path.parent().unwrap().file_name()].map(Option::unwrap);
            let output = std::path::Path::new("runs/reproduce")
                .join(item)
                .join(scale);
            assert_eq!(sweep.output, output);
            let check = ["config", "check", path.to_str().unwrap()];
            workspace.kvt(&check).assert().success();
            sweeps += 1;
        }
    }
    assert!(sweeps >= 12, "{sweeps}");
}

/// A sweep has its own title, and folders of runs take none of the options of training.
#[test]
fn an_option_without_effect_is_refused() {
    let workspace = Workspace::with_data(2, 1);
    workspace.write("sweep.toml", "[[run]]\nconfig = \"tiny.toml\"\n");
    let error = workspace.error(&["compare", "sweep.toml", "--title", "x"]);
    assert!(error.contains("`--title` is not for a sweep"), "{error}");
    workspace.train("run", &["train.epochs=1"]);
    for (option, value) in [("--seeds", "2"), ("--set", "seed=1"), ("--device", "cpu")] {
        let error = workspace.error(&["compare", "run", option, value]);
        let expected = format!("`{option}` is for configurations and sweeps");
        assert!(error.contains(&expected), "{error}");
    }
}

/// The folder of a cell with files of the user, which have the names of ours.
#[test]
fn nothing_is_removed_from_a_folder_that_is_no_run() {
    let workspace = Workspace::with_data(4, 4);
    workspace.write("sweep.toml", SWEEP);
    let mine = ["predictions.csv", "linear.csv", "notes.txt"];
    let files = mine.map(|name| format!("{}/{name}", dir(CELLS[0])));
    for file in &files {
        workspace.write(file, "mine");
    }
    // The user's own list of classes, in another cell.
    let classes = format!("{}/classes.txt", dir(CELLS[1]));
    workspace.write(&classes, "mine");
    let error = workspace.error(&["compare", "sweep.toml"]);
    assert!(error.contains("is not empty and holds no run"), "{error}");
    for file in files.iter().chain([&classes]) {
        assert_eq!(workspace.read(file), "mine", "{file}");
    }
}

/// Its own files have the names of a judgement and of an analysis.
#[test]
fn results_are_not_written_into_a_run() {
    let workspace = Workspace::with_data(4, 4);
    workspace.train("run", &["train.epochs=1"]);
    let error = workspace.error(&["eval", "--run", "run", "--out", "run"]);
    assert!(error.contains("`run` is the folder of a run"), "{error}");
    assert!(!workspace.path("run/predictions.csv").exists());
    let judged = ["eval", "--run", "run", "--out", "run/results"];
    workspace.kvt(&judged).assert().success();
    assert!(workspace.path("run/results/predictions.csv").exists());
}
