//! A run that was killed, interrupted or cut short ends as if nothing had happened.

use std::collections::BTreeSet;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::LazyLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::support::{KVT, Workspace, steps};

/// With every source of randomness, and an average of the weights. Epochs have 24 updates and there is a checkpoint every 5, so
/// that most of them are within an epoch.
const CONFIG: &str = r#"base = "tiny.toml"

[model]
drop_path = 0.2
attn_drop = 0.2

[augment]
preset = "cifar"
padding = 2

[ema]
decay = 0.9

[train]
epochs = 4
batch_size = 2
accumulate = 2

[checkpoint]
every_epochs = 0
every_steps = 5
"#;

pub(crate) const EPOCH: u64 = 24;
const STEPS: u64 = 4 * EPOCH;

/// The update from which on a run is killed or interrupted: in the second epoch, far from its end.
const MIDDLE: u64 = 30;

/// The result of a finished run, except for times.
#[derive(Debug, PartialEq)]
struct Outcome {
    /// Step, epoch, loss, learning rate, gradient norm.
    steps: Vec<(u64, u32, f64, f64, f64)>,
    epochs: Vec<String>,
    model: Vec<u8>,
    optimizer: Vec<u8>,
    ema: Vec<u8>,
}

/// Trained in one go, with worker threads.
static UNINTERRUPTED: LazyLock<Outcome> = LazyLock::new(|| {
    let workspace = workspace();
    train(&workspace, &["data.workers=2"]);
    outcome(&workspace)
});

#[test]
fn after_a_kill_in_the_middle_of_an_epoch() {
    let workspace = workspace();
    let mut child = Running::start(&workspace, &[]);
    child.wait_for_step(&workspace, MIDDLE);
    child.0.kill().unwrap();
    let status = child.wait();
    assert!(!status.success(), "finished before it was killed");
    let step = last_step(&workspace);
    assert!(
        step < STEPS && !step.is_multiple_of(EPOCH),
        "killed at step {step}"
    );

    resume(&workspace, &[]);
    assert_same(&workspace);
}

#[test]
fn after_ctrl_c() {
    let workspace = workspace();
    let mut child = Running::start(&workspace, &[]);
    child.wait_for_step(&workspace, MIDDLE);
    child.signal("INT");
    let status = child.wait();
    assert_eq!(status.code(), Some(130));
    let stderr = workspace.read("stderr.txt");
    assert!(stderr.contains("add `--resume`"), "{stderr}");
    // Saved where it stopped, not at the last multiple of five.
    let logged = workspace.log("run");
    let stopped = steps(&logged).last().unwrap().step;
    assert!(stopped < STEPS);
    assert_eq!(last_step(&workspace), stopped);

    resume(&workspace, &[]);
    assert_same(&workspace);
}

#[test]
fn after_max_steps() {
    let workspace = workspace();
    train(&workspace, &["train.max_steps=31"]);
    assert_eq!(last_step(&workspace), 31);
    resume(&workspace, &["data.workers=1", "data.prefetch=1"]);
    assert_same(&workspace);
}

/// With `auto` the same command begins a run, goes on with it and leaves it when it is finished; another recipe is refused as ever.
#[test]
fn the_same_command_begins_and_goes_on() {
    let workspace = workspace();
    let auto = |set: &[&'static str]| [&arguments(set)[..], &["--resume", "auto"]].concat();
    workspace
        .kvt(&auto(&["train.max_steps=31"]))
        .assert()
        .success();
    assert_eq!(last_step(&workspace), 31);
    let error = workspace.error(&auto(&["optim.lr=2e-3"]));
    assert!(
        error.contains("started with another configuration"),
        "{error}"
    );
    workspace.kvt(&auto(&[])).assert().success();
    assert_same(&workspace);
    workspace.kvt(&auto(&[])).assert().success();
    assert_same(&workspace);
    // What is left of a run is not begun anew.
    fs_err::remove_file(workspace.path("run/config.toml")).unwrap();
    let error = workspace.error(&auto(&[]));
    assert!(error.contains("config.toml"), "{error}");
}

#[test]
fn another_recipe_is_refused_and_another_setting_is_not() {
    let workspace = workspace();
    train(&workspace, &["train.max_steps=4"]);
    let error = workspace.error(&[
        "train",
        "resume.toml",
        "--resume",
        "--set",
        "optim.lr=2e-3",
        "--set",
        "data.shuffle=false",
    ]);
    insta::assert_snapshot!(error, @r"
    error: run `run` was started with another configuration:
      `data.shuffle`: `true` -> `false`
      `optim.lr`: `0.001` -> `0.002`
    use the old values to resume, or start a new run in another `run.dir`, from these weights with `init.weights`
    ");

    let harmless = ["data.workers=2", "log.every_steps=3", "train.max_steps=8"];
    resume(&workspace, &harmless);
    let events = workspace.log("run");
    let logged: Vec<u64> = steps(&events).iter().map(|step| step.step).collect();
    assert_eq!(logged, [1, 2, 3, 4, 6]);
    let log = workspace.read("run/log.jsonl");
    for key in ["data.workers", "log.every_steps", "train.max_steps"] {
        assert!(log.contains(&format!("`{key}`")), "{log}");
    }
}

#[test]
fn an_end_that_is_past_is_refused() {
    let workspace = workspace();
    train(&workspace, &["train.max_steps=7"]);
    let files = ["run/config.toml", "run/log.jsonl", "run/checkpoints/last"];
    let read = || files.map(|file| workspace.read(file));
    let before = read();
    let earlier = [&arguments(&["train.max_steps=6"])[..], &["--resume"]].concat();
    insta::assert_snapshot!(workspace.error(&earlier), @"error: run `run` cannot end after `train.max_steps = 6`: it has made 7 updates; give as many or more, or resume from an earlier checkpoint with `--resume-from`");
    assert_eq!(read(), before);
    // It may end where it is.
    resume(&workspace, &["train.max_steps=7"]);
    assert_eq!(last_step(&workspace), 7);
}

/// A checkpoint has the numbers of the classes alone; `classes.txt` has their names.
#[test]
fn a_renamed_class_is_refused() {
    let workspace = Workspace::with_data(2, 1);
    let label = |names: [&str; 3]| {
        let mut table = "path,label\n".to_owned();
        for (folder, name) in ["a", "b", "c"].into_iter().zip(names) {
            for image in ["train/_/000.png", "train/_/001.png", "val/_/000.png"] {
                table += &format!("{},{name}\n", image.replace('_', folder));
            }
        }
        workspace.write("data/labels.csv", table);
    };
    let folders = ["train", "tiny.toml", "--run-dir", "folders"];
    let table = ["train", "tiny.toml", "--set", "data.labels=labels.csv"];
    let short = ["--set", "train.max_steps=1"];
    label(["a", "b", "c"]);
    for command in [folders, table] {
        let begin = [&command[..], &short].concat();
        workspace.kvt(&begin).assert().success();
    }
    let refused = |command: [&str; 4], run: &str, new: &str| {
        let error = workspace.error(&[&command[..], &["--resume"]].concat());
        let expected = format!("of `{run}/classes.txt`: the run has `b`, the data has `{new}`:");
        assert!(error.contains(&expected), "{error}");
        assert_eq!(workspace.read(&format!("{run}/classes.txt")), "a\nb\nc\n");
    };
    // At the same place of the order, and at another one.
    for new in ["bb", "z"] {
        label(["a", new, "c"]);
        refused(table, "run", new);
    }
    let rename = |old: &str, new: &str| {
        for split in ["train", "val"] {
            let at = |class: &str| workspace.path(&format!("data/{split}/{class}"));
            fs_err::rename(at(old), at(new)).unwrap();
        }
    };
    rename("b", "bb");
    refused(folders, "folders", "bb");
    rename("bb", "b");

    // With the old names they go on, and also where there is no list.
    label(["a", "b", "c"]);
    fs_err::remove_file(workspace.path("folders/classes.txt")).unwrap();
    for (command, run) in [(folders, "folders"), (table, "run")] {
        let resume = [&command[..], &["--resume"]].concat();
        workspace.kvt(&resume).assert().success();
        assert_eq!(workspace.read(&format!("{run}/classes.txt")), "a\nb\nc\n");
    }
}

#[test]
fn a_second_process_may_not_write_the_same_run() {
    let workspace = workspace();
    let mut child = Running::start(&workspace, &["train.epochs=100000"]);
    child.wait_for_step(&workspace, 1);
    for resume in [&[][..], &["--resume"]] {
        let mut arguments = vec!["train", "resume.toml", "--set", "train.epochs=100000"];
        arguments.extend(resume);
        let error = workspace.error(&arguments);
        assert!(error.contains("run `run` is being written by"), "{error}");
        assert!(error.contains(&child.0.id().to_string()), "{error}");
    }
    assert!(child.0.try_wait().unwrap().is_none(), "it continues");
}

pub(crate) fn workspace() -> Workspace {
    let workspace = Workspace::with_data(32, 4);
    workspace.write("resume.toml", CONFIG);
    workspace
}

pub(crate) fn train(workspace: &Workspace, overrides: &[&str]) {
    let arguments = arguments(overrides);
    workspace.kvt(&arguments).assert().success();
}

pub(crate) fn resume(workspace: &Workspace, overrides: &[&str]) {
    let mut arguments = arguments(overrides);
    arguments.push("--resume");
    workspace.kvt(&arguments).assert().success();
}

pub(crate) fn arguments<'a>(overrides: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = vec!["train", "resume.toml"];
    arguments.extend(overrides.iter().flat_map(|&text| ["--set", text]));
    arguments
}

pub(crate) fn assert_same(workspace: &Workspace) {
    let found = outcome(workspace);
    let expected = &*UNINTERRUPTED;
    assert_eq!(found.steps, expected.steps);
    assert_eq!(found.epochs, expected.epochs);
    assert!(found.model == expected.model, "other weights");
    assert!(found.optimizer == expected.optimizer, "other moments");
    assert!(found.ema == expected.ema, "another average");
}

fn outcome(workspace: &Workspace) -> Outcome {
    let events = workspace.log("run");
    let steps: Vec<_> = steps(&events)
        .iter()
        .map(|s| (s.step, s.epoch, s.loss, s.lr, s.grad_norm))
        .collect();
    let numbers: Vec<u64> = steps.iter().map(|step| step.0).collect();
    assert_eq!(numbers, Vec::from_iter(1..=STEPS), "each step once");
    let losses: BTreeSet<u64> = steps.iter().map(|step| step.2.to_bits()).collect();
    assert!(losses.len() > 90, "the batches differ");
    let epochs: Vec<String> = workspace
        .read("run/epochs.csv")
        .lines()
        .map(|row| {
            // All columns except `seconds,images_per_second`.
            let cells: Vec<&str> = row.split(',').collect();
            cells[..cells.len() - 2].join(",")
        })
        .collect();
    assert_eq!(epochs.len(), 1 + 4);
    let checkpoint = workspace.last_checkpoint("run");
    Outcome {
        steps,
        epochs,
        model: fs_err::read(checkpoint.join("model.safetensors")).unwrap(),
        optimizer: fs_err::read(checkpoint.join("optimizer.safetensors")).unwrap(),
        ema: fs_err::read(checkpoint.join("ema.safetensors")).unwrap(),
    }
}

/// The step of the last checkpoint.
pub(crate) fn last_step(workspace: &Workspace) -> u64 {
    let name = workspace.last_checkpoint("run");
    let name = name.file_name().unwrap().to_str().unwrap();
    let step = name.strip_prefix("step-").unwrap();
    step.split('-').next().unwrap().parse().unwrap()
}

/// The program with default handling of every signal: tests that run in the background or under `nohup` ignore some, and so would
/// their children.
pub(crate) fn program() -> Command {
    if cfg!(target_os = "linux") {
        let mut command = Command::new("env");
        command.args(["--default-signal=HUP,INT,TERM,USR1", KVT]);
        command
    } else {
        Command::new(KVT)
    }
}

/// A training process that is killed when the test ends, at the latest.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    pub(crate) fn start(workspace: &Workspace, overrides: &[&str]) -> Self {
        Self::start_as(program().args(arguments(overrides)), workspace)
    }

    pub(crate) fn start_resumed(workspace: &Workspace, overrides: &[&str]) -> Self {
        let arguments = [&arguments(overrides)[..], &["--resume"]].concat();
        Self::start_as(program().args(arguments), workspace)
    }

    /// A command that executes the program.
    pub(crate) fn start_as(command: &mut Command, workspace: &Workspace) -> Self {
        let stderr = fs_err::File::create(workspace.path("stderr.txt")).unwrap();
        let child = command
            .current_dir(workspace.path(""))
            .stderr(Stdio::from(stderr.into_file()))
            .spawn();
        Self(child.unwrap())
    }

    /// Waits for a checkpoint of this step or a later one.
    pub(crate) fn wait_for_step(&mut self, workspace: &Workspace, step: u64) {
        let last = workspace.path("run/checkpoints/last");
        self.wait_until(workspace, || last.exists() && last_step(workspace) >= step);
    }

    pub(crate) fn wait_until(&mut self, workspace: &Workspace, reached: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(300);
        while !reached() {
            if let Some(status) = self.0.try_wait().unwrap() {
                let stderr = workspace.read("stderr.txt");
                panic!("ended too early, {status}: {stderr}");
            }
            assert!(Instant::now() < deadline, "it never came");
            sleep(Duration::from_millis(1));
        }
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.0.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(sent.unwrap().success());
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.0.wait().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended already unless the test failed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
