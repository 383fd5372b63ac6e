//! The behaviour of a run that is asked to stop.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use kvt_train::config::load_plan;
#[cfg(target_os = "linux")]
use kvt_train::device::{Kind, automatic};
use kvt_train::engine::{End, Session, Start};
use kvt_train::run::{Event, Listener, RunError};
use kvt_train::task::Classify;
use kvt_train::world::alone;

use crate::resume::{EPOCH, Running, assert_same, last_step, program, resume, workspace};
use crate::support::{KVT, Workspace, set};

/// Far more epochs than the test waits for.
const ENDLESS: &str = "train.epochs=100000";

#[test]
fn each_signal_saves_and_has_its_own_exit_code() {
    for (signal, code) in [("HUP", 129), ("USR1", 138), ("TERM", 143)] {
        let workspace = workspace();
        let mut child = Running::start(&workspace, &[ENDLESS]);
        child.wait_for_step(&workspace, 5);
        child.signal(signal);
        assert_eq!(child.wait().code(), Some(code), "{signal}");
        let logged = workspace.read("run/log.jsonl");
        let stopped = format!("\"kind\":\"step\",\"step\":{},", last_step(&workspace));
        assert!(logged.contains(&stopped), "{signal}: {logged}");
    }
}

/// As under `nohup`, and in a background job of a script.
#[cfg(target_os = "linux")]
#[test]
fn a_signal_that_was_ignored_stays_ignored() {
    let workspace = workspace();
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "trap '' HUP INT; exec \"$0\" train resume.toml --set \"$1\"",
        KVT,
        ENDLESS,
    ]);
    let mut child = Running::start_as(&mut command, &workspace);
    child.wait_for_step(&workspace, 5);
    child.signal("HUP");
    child.signal("INT");
    child.wait_for_step(&workspace, last_step(&workspace) + 10);
    child.signal("TERM");
    assert_eq!(child.wait().code(), Some(143));
}

/// A GPU that `auto` only looks at is not opened: its thread, which the system knows by `DS` and the device's number, takes time from the
/// training. A machine whose GPU `auto` takes has it open.
#[cfg(target_os = "linux")]
#[test]
fn a_device_that_is_not_used_has_no_thread() {
    if automatic().is_none_or(|found| found.kind != Kind::Cpu) {
        return;
    }
    let workspace = workspace();
    let mut child = Running::start(&workspace, &[ENDLESS, "train.device=auto"]);
    child.wait_for_step(&workspace, 5);
    let tasks = fs_err::read_dir(format!("/proc/{}/task", child.0.id())).unwrap();
    let names: Vec<String> = tasks
        .filter_map(|task| fs_err::read_to_string(task.unwrap().path().join("comm")).ok())
        .collect();
    assert!(names.len() > 1, "{names:?}");
    assert!(
        !names.iter().any(|name| name.starts_with("DS")),
        "{names:?}"
    );
    child.signal("TERM");
    assert_eq!(child.wait().code(), Some(143));
}

/// Asks to stop when the checkpoint before an evaluation is written, and records whether an evaluation was finished.
struct StopBeforeEval<'a> {
    stop: &'a AtomicBool,
    evaluated: bool,
}

impl Listener for StopBeforeEval<'_> {
    fn event(&mut self, event: &Event) -> Result<(), RunError> {
        self.evaluated |= matches!(event, Event::Eval(_));
        Ok(())
    }

    fn sync(&mut self) -> Result<(), RunError> {
        self.stop.store(true, Ordering::Relaxed);
        Ok(())
    }
}

fn stop_in_evaluation(workspace: &Workspace, overrides: &[&str]) {
    let mut all = vec![
        set("data.path", &workspace.path("data")),
        set("run.dir", &workspace.path("run")),
        "checkpoint.every_steps=0".to_owned(),
    ];
    all.extend(overrides.iter().map(|&text| text.to_owned()));
    let plan = load_plan(&workspace.path("resume.toml"), &all).unwrap();
    let stop = AtomicBool::new(false);
    let mut listener = StopBeforeEval {
        stop: &stop,
        evaluated: false,
    };
    let session = Session::<Classify>::prepare(alone(), plan, Start::New, &mut |_, _| {}).unwrap();
    assert_eq!(session.train(&mut listener, &stop).unwrap(), End::Stopped);
    assert!(!listener.evaluated);
}

#[test]
fn an_evaluation_that_was_stopped_is_made_when_the_run_goes_on() {
    let workspace = workspace();
    stop_in_evaluation(&workspace, &["checkpoint.every_epochs=1"]);
    assert_eq!(last_step(&workspace), EPOCH);
    let name = workspace.last_checkpoint("run");
    assert!(name.ends_with("step-00000024-before-eval"), "{name:?}");
    resume(&workspace, &[]);
    assert_same(&workspace);
    let names = workspace.entries("run/checkpoints");
    assert!(
        !names.iter().any(|name| name.contains("before-eval")),
        "{names:?}"
    );
}

#[test]
fn so_is_that_at_the_end_of_a_shortened_run() {
    shortened("checkpoint.every_steps=0");
}

#[test]
fn so_is_that_after_a_checkpoint_of_the_same_step() {
    shortened("checkpoint.every_steps=20");
}

fn shortened(checkpoints: &str) {
    let workspace = workspace();
    stop_in_evaluation(&workspace, &["train.max_steps=20", checkpoints]);
    let name = workspace.last_checkpoint("run");
    assert!(name.ends_with("step-00000020-before-eval"), "{name:?}");
    resume(&workspace, &["train.max_steps=20"]);
    let evaluated = workspace.log("run").iter().any(|event| match event {
        Event::Eval(eval) => eval.step == 20,
        _ => false,
    });
    assert!(evaluated);
    assert!(workspace.last_checkpoint("run").ends_with("step-00000020"));
    resume(&workspace, &[]);
    assert_same(&workspace);
}

/// A verb that does not listen ends at once, by the signal, and leaves nothing of what it was writing.
#[cfg(unix)]
#[test]
fn a_signal_leaves_no_half_made_folder() {
    use std::os::unix::process::ExitStatusExt as _;
    let workspace = Workspace::empty();
    for (signal, number) in [("TERM", 15), ("INT", 2)] {
        let mut command = program();
        command.args(["data", "generate", "shapes", "--train-per-class", "20000"]);
        let mut child = Running::start_as(&mut command, &workspace);
        child.wait_until(&workspace, || {
            let mut names = workspace.entries(".").into_iter();
            names.any(|name| {
                let data = format!("{name}/data/train/circle/00000.png");
                name.starts_with(".kvt-tmp-") && workspace.path(&data).exists()
            })
        });
        child.signal(signal);
        assert_eq!(child.wait().signal(), Some(number));
        let mut left = workspace.entries(".");
        left.sort();
        assert_eq!(left, ["stderr.txt", "tiny.toml"]);
    }
}

/// The folder of a run is moved while it is trained: the run ends, and writes nothing where it was.
#[cfg(unix)]
#[test]
fn a_run_that_is_moved_ends() {
    let workspace = workspace();
    let mut child = Running::start(&workspace, &[ENDLESS]);
    child.wait_for_step(&workspace, 5);
    fs_err::rename(workspace.path("run"), workspace.path("moved")).unwrap();
    fs_err::create_dir(workspace.path("run")).unwrap();
    assert_eq!(child.wait().code(), Some(1));
    let error = workspace.read("stderr.txt");
    assert!(
        error.contains("error: run `run` was moved or deleted"),
        "{error}"
    );
    assert_eq!(workspace.entries("run"), Vec::<String>::new());
    assert!(workspace.path("moved/checkpoints/last").exists());
}
