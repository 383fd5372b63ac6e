//! Runs whose folder was damaged, or whose data broke during training: damage to unneeded files never blocks, losses are
//! reported, and the run ends as if nothing had happened.

use std::path::Path;

use kvt_train::run::Event;

use crate::resume::{EPOCH, Running, assert_same, resume, train, workspace};
use crate::support::steps;

/// No checkpoint until the end of the run.
const NO_CHECKPOINTS: [&str; 2] = ["checkpoint.every_steps=0", "checkpoint.every_epochs=0"];

#[test]
fn killed_with_finished_epochs_and_no_checkpoint_it_starts_over() {
    let workspace = workspace();
    // An evaluation that is the best so far would be saved.
    workspace.write(
        "late.toml",
        "base = \"resume.toml\"\n[train]\neval_every = 4\n",
    );
    let mut arguments = vec!["train", "late.toml"];
    arguments.extend(NO_CHECKPOINTS.iter().flat_map(|&text| ["--set", text]));
    let mut command = std::process::Command::new(crate::support::KVT);
    let mut child = Running::start_as(command.args(&arguments), &workspace);
    let log = workspace.path("run/log.jsonl");
    child.wait_until(&workspace, || {
        fs_err::read_to_string(&log).is_ok_and(|text| text.contains("\"kind\":\"epoch\""))
    });
    child.0.kill().unwrap();
    assert!(!child.wait().success(), "finished before it was killed");
    assert!(!workspace.path("run/checkpoints/last").exists());

    arguments.push("--resume");
    let output = workspace.kvt(&arguments).assert().success();
    let stderr = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
    assert!(stderr.contains("starting from the beginning"), "{stderr}");
    assert!(
        workspace
            .read("run/log.jsonl.1")
            .contains("\"kind\":\"epoch\"")
    );
    let events = workspace.log("run");
    let logged: Vec<u64> = steps(&events).iter().map(|step| step.step).collect();
    assert_eq!(logged, Vec::from_iter(1..=4 * EPOCH));
}

#[test]
fn a_finished_run_without_checkpoints_is_not_trained_again() {
    let workspace = workspace();
    train(&workspace, &[]);
    fs_err::remove_dir_all(workspace.path("run/checkpoints")).unwrap();
    let log = workspace.read("run/log.jsonl");
    let error = workspace.error(&["train", "resume.toml", "--resume"]);
    assert!(
        error.contains("run `run` is finished, but its checkpoints are gone"),
        "{error}"
    );
    assert_eq!(workspace.read("run/log.jsonl"), log);
}

/// Breaks an image, fails because of it, and repairs it.
fn mend_and_resume(image: &str, says: &str) {
    let workspace = workspace();
    let path = workspace.path(image);
    let whole = fs_err::read(&path).unwrap();
    // Of another size; sizes are not compared if a run ended because of its data.
    fs_err::write(&path, b"").unwrap();
    let mut arguments = vec!["train", "resume.toml"];
    arguments.extend(NO_CHECKPOINTS.iter().flat_map(|&text| ["--set", text]));
    let error = workspace.error(&arguments);
    let file = Path::new(image).file_name().unwrap().to_str().unwrap();
    let (cause, saved) = error.split_once("; the state after step").unwrap();
    assert!(cause.contains(file) && saved.contains(says), "{error}");
    fs_err::write(&path, whole).unwrap();
    resume(&workspace, &[]);
    assert_same(&workspace);
}

#[test]
fn an_unreadable_image_in_an_evaluation_loses_no_epoch() {
    mend_and_resume("data/val/b/002.png", " 24 is saved");
}

#[test]
fn an_unreadable_image_in_an_epoch_loses_no_step() {
    mend_and_resume(
        "data/train/b/002.png",
        " is saved; `--resume` continues from there",
    );
}

#[test]
fn records_that_nothing_depends_on_never_block() {
    let workspace = workspace();
    train(&workspace, &["train.max_steps=31"]);
    workspace.write("run/environment.json", "");
    workspace.write("run/classes.txt", "a\nb\n");
    let log = workspace.read("run/log.jsonl");
    let (first, rest) = log.split_once('\n').unwrap();
    let lost = "x".repeat(first.len());
    workspace.write("run/log.jsonl", format!("{lost}\n{rest}"));

    let output = workspace
        .kvt(&["train", "resume.toml", "--resume"])
        .assert()
        .success();
    let stderr = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
    for said in [
        "environment.json.1`",
        "classes.txt` is missing or altered",
        "log.jsonl`, line 1:",
    ] {
        assert!(stderr.contains(said), "{said}: {stderr}");
    }
    assert_eq!(workspace.read("run/classes.txt"), "a\nb\nc\n");
    // Everything except the lost line is there.
    let log = workspace.read("run/log.jsonl").replacen(&lost, first, 1);
    workspace.write("run/log.jsonl", log);
    assert_same(&workspace);
}

/// The table of a run whose log is lost is the only record of its epochs; a second resume makes no second copy.
#[test]
fn a_lost_log_does_not_take_the_table_of_epochs_with_it() {
    let workspace = workspace();
    train(&workspace, &["train.max_steps=31"]);
    let table = workspace.read("run/epochs.csv");
    assert!(table.lines().count() > 1);
    fs_err::remove_file(workspace.path("run/log.jsonl")).unwrap();
    for _ in 0..2 {
        resume(&workspace, &["train.max_steps=31"]);
        assert_eq!(workspace.read("run/epochs.csv.1"), table);
        assert!(!workspace.path("run/epochs.csv.2").exists());
    }
    insta::assert_snapshot!(workspace.error(&["report", "run"]), @"error: run `run` has not finished an epoch since its log was lost: the earlier epochs are in `run/epochs.csv.1`");
}

#[test]
fn a_broken_last_checkpoint_costs_some_steps() {
    let workspace = workspace();
    train(&workspace, &["train.max_steps=31"]);
    let last = workspace.last_checkpoint("run");
    assert!(last.ends_with("step-00000031"));
    let model = last.join("model.safetensors");
    let mut bytes = fs_err::read(&model).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs_err::write(&model, bytes).unwrap();

    let output = workspace
        .kvt(&["train", "resume.toml", "--resume"])
        .assert()
        .success();
    let stderr = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
    assert!(
        stderr.contains("resumed in epoch 2, after step 30"),
        "{stderr}"
    );
    assert!(
        workspace
            .path("run/checkpoints/set-aside-step-00000031")
            .is_dir()
    );
    assert_same(&workspace);
}

#[test]
fn it_goes_on_from_the_checkpoint_that_is_named() {
    let workspace = workspace();
    train(&workspace, &["train.max_steps=36"]);
    let names = workspace.entries("run/checkpoints");
    let older = names.iter().find(|name| name.starts_with("step-00000035"));
    let from = ["train", "resume.toml", "--resume-from"];
    let error = workspace.error(&[&from[..], &["data/train"]].concat());
    assert!(
        error.contains("is not a checkpoint in `run/checkpoints`"),
        "{error}"
    );
    workspace
        .kvt(&[&from[..], &[older.unwrap()]].concat())
        .assert()
        .success();
    assert_same(&workspace);
    assert!(workspace.path("run/log.jsonl.1").exists());

    // The best checkpoint, after the run has finished.
    let best = || {
        let name = workspace.read("run/checkpoints/best");
        name.trim().split('-').nth(1).map(str::to_owned)
    };
    let before = best();
    workspace
        .kvt(&[&from[..], &["best"]].concat())
        .assert()
        .success();
    assert_same(&workspace);
    assert_eq!(best(), before);
}

#[test]
fn a_lost_best_checkpoint_is_said_and_there_is_one_again() {
    let workspace = workspace();
    let mut child = Running::start(&workspace, &[]);
    child.wait_for_step(&workspace, EPOCH + 5);
    child.signal("INT");
    assert_eq!(child.wait().code(), Some(130));
    // The first evaluation is the best so far, and training went on after it.
    let best = workspace.read("run/checkpoints/best");
    assert_ne!(best, workspace.read("run/checkpoints/last"));
    fs_err::remove_dir_all(workspace.path("run/checkpoints").join(best.trim())).unwrap();

    let output = workspace
        .kvt(&["train", "resume.toml", "--resume"])
        .assert()
        .success();
    let stderr = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
    assert!(
        stderr.contains("the next evaluation counts as the best so far"),
        "{stderr}"
    );
    workspace.kvt(&["eval", "--run", "run"]).assert().success();
    assert_same(&workspace);
}

#[test]
fn the_order_of_the_class_list_does_not_change_a_run() {
    let workspace = workspace();
    train(&workspace, &["train.max_steps=31"]);
    workspace.write("run/classes.txt", "c\nb\na\n");
    resume(&workspace, &[]);
    assert_eq!(workspace.read("run/classes.txt"), "a\nb\nc\n");
    assert_same(&workspace);
}

#[test]
fn after_a_lost_log_no_step_is_logged_twice() {
    let workspace = workspace();
    let sparse = ["checkpoint.every_steps=0", "checkpoint.every_epochs=4"];
    train(&workspace, &[&sparse[..], &["train.max_steps=31"]].concat());
    fs_err::remove_file(workspace.path("run/log.jsonl")).unwrap();
    let mut child = Running::start_resumed(&workspace, &sparse);
    child.wait_until(&workspace, || {
        fs_err::read_to_string(workspace.path("run/log.jsonl"))
            .is_ok_and(|log| log.contains("\"step\":40,"))
    });
    child.0.kill().unwrap();
    assert!(!child.wait().success(), "finished before it was killed");
    resume(&workspace, &sparse);
    let events = workspace.log("run");
    let logged: Vec<u64> = steps(&events).iter().map(|step| step.step).collect();
    assert_eq!(logged, Vec::from_iter(32..=4 * EPOCH));
}

#[test]
fn the_images_may_have_moved() {
    let workspace = workspace();
    train(&workspace, &["train.max_steps=31"]);
    fs_err::rename(workspace.path("data"), workspace.path("moved")).unwrap();
    resume(&workspace, &["data.path=moved"]);
    assert_same(&workspace);
}

/// Diverges in one of its first steps.
const DIVERGING: [&str; 4] = ["train", "resume.toml", "--set", "optim.lr=1e30"];

#[test]
fn the_cause_comes_before_the_evidence_that_could_not_be_kept() {
    let workspace = workspace();
    let first = [&DIVERGING[..], &["--set", "train.max_steps=1"]].concat();
    workspace.kvt(&first).assert().success();
    // A file blocks the path of each folder.
    for step in 2..10 {
        workspace.write(&format!("run/nonfinite-step-{step}"), "");
    }
    let error = workspace.error(&[&DIVERGING[..], &["--resume"]].concat());
    assert!(error.starts_with("error: step "), "{error}");
    assert!(
        error.contains("could not be kept: ") && error.contains("run/nonfinite-step-"),
        "{error}"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn evidence_is_kept_of_files_whose_names_are_no_text() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let workspace = workspace();
    for class in ["a", "b", "c"] {
        let folder = workspace.path("data/train").join(class);
        for name in workspace.entries(&format!("data/train/{class}")) {
            let other = [b"\xff", name.as_bytes()].concat();
            fs_err::rename(folder.join(&name), folder.join(OsStr::from_bytes(&other))).unwrap();
        }
    }
    let error = workspace.error(&DIVERGING);
    assert!(error.starts_with("error: step "), "{error}");
    let names = workspace.entries("run");
    let folder = names
        .iter()
        .find(|name| name.starts_with("nonfinite-step-"));
    let batch = workspace.read(&format!("run/{}/batch.json", folder.unwrap()));
    let batch: Vec<(String, u32)> = serde_json::from_str(&batch).unwrap();
    assert_eq!(batch.len(), 4);
}

#[test]
fn lines_of_the_log_hold_means_and_survive_a_resume() {
    let workspace = workspace();
    train(&workspace, &["log.every_steps=7", "train.max_steps=31"]);
    resume(&workspace, &["log.every_steps=7"]);
    let events = workspace.log("run");
    let sparse = steps(&events);

    let reference = crate::resume::workspace();
    train(&reference, &[]);
    let events = reference.log("run");
    let every = steps(&events);
    assert_eq!(sparse.len(), every.len() / 7);
    for (line, window) in sparse.iter().zip(every.chunks(7)) {
        assert_eq!(line.step, window[6].step);
        assert!(line.lr.to_bits() == window[6].lr.to_bits());
        for (found, expected) in [
            (line.loss, window.iter().map(|s| s.loss).sum::<f64>() / 7.0),
            (
                line.grad_norm,
                window.iter().map(|s| s.grad_norm).sum::<f64>() / 7.0,
            ),
        ] {
            assert!(
                (found - expected).abs() < 1e-12 * expected.abs(),
                "{line:?}"
            );
        }
    }
}

#[test]
fn progress_does_not_wait_for_the_log() {
    let workspace = workspace();
    let arguments = ["train", "resume.toml", "--set", "log.every_steps=1000"];
    let output = workspace.kvt(&arguments).assert().success();
    let stderr = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
    for line in ["step 1/96 ", "step 96/96 "] {
        assert_eq!(stderr.matches(line).count(), 1, "{stderr}");
    }
    let logged = workspace.log("run");
    assert!(!logged.iter().any(|event| matches!(event, Event::Step(_))));
}

#[test]
fn a_configuration_that_is_damaged_or_lost_comes_back_from_the_one_it_was_made_from() {
    let workspace = workspace();
    train(&workspace, &["train.max_steps=31"]);
    let way_out = "`kvt config print CONFIG > run/config.toml`";
    for damage in ["seed = ", "sede = 3\n", ""] {
        workspace.write("run/config.toml", damage);
        let error = workspace.error(&["train", "resume.toml", "--resume"]);
        assert!(error.contains("run `run` is damaged"), "{error}");
        assert!(error.contains(way_out), "{error}");
    }
    fs_err::remove_file(workspace.path("run/config.toml")).unwrap();
    let error = workspace.error(&["train", "resume.toml", "--resume"]);
    assert!(error.contains("has lost its `config.toml`"), "{error}");
    assert!(error.contains(way_out), "{error}");

    let printed = workspace.kvt(&["config", "print", "resume.toml"]).assert();
    workspace.write("run/config.toml", &printed.success().get_output().stdout);
    resume(&workspace, &[]);
    assert_same(&workspace);
}

/// A forked child holds the locks of its parent until it becomes another program, even if the parent is killed meanwhile: the
/// next start would find the run locked.
#[cfg(unix)]
#[test]
fn no_other_program_is_started_while_a_new_folder_is_locked() {
    use std::os::unix::fs::PermissionsExt;

    let workspace = workspace();
    workspace.write("bin/git", "#!/bin/sh\n[ -e run ] && : > late\n: > asked\n");
    let executable = std::fs::Permissions::from_mode(0o755);
    fs_err::set_permissions(workspace.path("bin/git"), executable).unwrap();
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", workspace.path("bin").display());
    let mut command = workspace.kvt(&["train", "resume.toml", "--set", "train.max_steps=1"]);
    command.env("PATH", path).assert().success();
    assert!(workspace.path("asked").exists());
    assert!(!workspace.path("late").exists(), "asked under the lock");
}

/// Nothing waits for a writer that never comes.
#[cfg(unix)]
#[test]
fn a_pipe_in_place_of_a_file_of_a_run_is_named() {
    let workspace = workspace();
    train(&workspace, &[]);
    let last = workspace.read("run/checkpoints/last");
    let last = format!("checkpoints/{}", last.trim());
    let report = &["report", "run", "--out", "page.html"][..];
    let eval = &["eval", "--run", "run", "--checkpoint", "last"];
    let resume = &["train", "resume.toml", "--resume"];
    let mut files: Vec<(String, Vec<&[&str]>)> = [
        "config.toml",
        "classes.txt",
        "log.jsonl",
        "epochs.csv",
        "environment.json",
        "run.lock",
        "checkpoints/last",
        "checkpoints/best",
    ]
    .map(|name| (name.to_owned(), vec![report, eval, resume]))
    .into();
    // Resuming would set the checkpoint aside.
    for name in ["manifest.json", "state.json", "model.safetensors"] {
        files.push((format!("{last}/{name}"), vec![report, eval]));
    }
    for (name, commands) in files {
        let file = format!("run/{name}");
        let (path, kept) = (workspace.path(&file), workspace.path("kept"));
        fs_err::rename(&path, &kept).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.unwrap().success());
        let mut told = String::new();
        for command in commands {
            let mut command = workspace.kvt(command);
            let output = command.timeout(std::time::Duration::from_secs(60)).assert();
            let output = output.get_output();
            // Without a code, it was ended after the minute.
            assert!(matches!(output.status.code(), Some(0 | 1)), "{file}");
            told += &String::from_utf8_lossy(&output.stderr);
        }
        let folder = format!("run/{last}");
        assert!(
            told.contains(&file) || name.starts_with(&last) && told.contains(&folder),
            "{file}: {told}"
        );
        assert!(!told.contains("panicked"), "{told}");
        let _ = fs_err::remove_file(&path);
        fs_err::rename(&kept, &path).unwrap();
    }
}
