//! The engine trains more than classifiers: a small self-supervised task, with a student and a teacher, two views of each
//! image, a centre, and a layer that is left out of the first epoch.

mod distil;

use std::path::Path;
use std::sync::atomic::AtomicBool;

use burn::tensor::{Device, TensorData};
use kvt_train::config::{Plan, load_plan};
use kvt_train::engine::{Checkpointer, End, Session, Start, TrainError, TrainState};
use kvt_train::recipe::Optimizer;
use kvt_train::run::{Event, RunDir, Which};
use kvt_train::splits::Splits;
use kvt_train::task::{Setup, Task, Weights};
use kvt_train::world::alone;

use self::distil::{Distil, FAILS, FEATURES, LAST_LAYER, OUTPUTS, Seen};
use crate::support::{Killer, Workspace, read_weights, set, steps};

/// Updates of an epoch: 18 images, two micro-batches of three at a time.
const EPOCH: u64 = 3;

fn plan(workspace: &Workspace, run: &str, overrides: &[&str]) -> Plan {
    let mut all = vec![
        set("data.path", &workspace.path("data")),
        set("run.dir", &workspace.path(run)),
    ];
    let fixed = [
        "train.epochs=3",
        "train.batch_size=3",
        "train.accumulate=2",
        "checkpoint.every_steps=2",
        "checkpoint.keep_last=100",
        "log.every_steps=1",
        "model.drop_path=0.2",
        "optim.lr=0.01",
    ];
    all.extend(fixed.iter().chain(overrides).map(|&text| text.to_owned()));
    load_plan(&workspace.path("tiny.toml"), &all).unwrap()
}

/// What a run came to.
struct Run {
    end: Result<End, TrainError>,
    events: Vec<Event>,
}

fn train(plan: &Plan, start: Start<'_>, killed_at: Option<u64>) -> Run {
    let mut killer = Killer {
        at: killed_at,
        events: Vec::new(),
    };
    let session = Session::<Distil>::prepare(alone(), plan.clone(), start, &mut |_, _| {}).unwrap();
    let end = session.train(&mut killer, &AtomicBool::new(false));
    Run {
        end,
        events: killer.events,
    }
}

fn files(checkpoint: &Path) -> Vec<Vec<u8>> {
    ["model", "optimizer", "task.teacher", "task.centre"]
        .map(|name| fs_err::read(checkpoint.join(format!("{name}.safetensors"))).unwrap())
        .to_vec()
}

#[test]
fn it_trains_and_goes_on_after_a_kill_as_if_nothing_had_happened() {
    let workspace = Workspace::with_data(6, 2);
    let whole = train(&plan(&workspace, "whole", &[]), Start::New, None);
    assert_eq!(whole.end.unwrap(), End::Finished);
    assert_eq!(steps(&whole.events).len() as u64, 3 * EPOCH);

    // In the first epoch, where the last layer has no moments, and later.
    for killed_at in [3, 5, 8] {
        let plan = plan(&workspace, &format!("killed-{killed_at}"), &[]);
        let killed = train(&plan, Start::New, Some(killed_at));
        assert!(killed.end.is_err());
        let resumed = train(&plan, Start::RESUME, None);
        assert_eq!(resumed.end.unwrap(), End::Finished);
        let losses = |events: &[Event]| -> Vec<(u64, u64)> {
            let steps = steps(events);
            steps.iter().map(|s| (s.step, s.loss.to_bits())).collect()
        };
        let tail = losses(&resumed.events);
        assert!(!tail.is_empty() && losses(&whole.events).ends_with(&tail));
        let [expected, found] = ["whole".to_owned(), format!("killed-{killed_at}")]
            .map(|run| workspace.last_checkpoint(&run));
        assert!(files(&expected) == files(&found), "killed at {killed_at}");
        let [expected, found] = ["whole".to_owned(), format!("killed-{killed_at}")]
            .map(|run| workspace.read(&format!("{run}/checkpoints/best")));
        assert_eq!(expected, found);
    }
}

#[test]
fn its_own_state_and_what_it_leaves_out() {
    let workspace = Workspace::with_data(6, 2);
    let plan = plan(&workspace, "run", &[]);
    let run = train(&plan, Start::New, None);
    run.end.unwrap();
    let read = |step: u64, file: &str| {
        let checkpoint = workspace.path(&format!("run/checkpoints/step-{step:08}"));
        read_weights(&checkpoint.join(format!("{file}.safetensors")))
    };
    let floats = |step, file: &str, name: &str| crate::support::floats(&read(step, file), name);

    // The first epoch passes the last layer over: no decay, no moments, no count.
    let start: Vec<f32> = (0..FEATURES * OUTPUTS).map(|i| (i as f32).sin()).collect();
    assert_eq!(floats(EPOCH, "model", LAST_LAYER), start);
    let optimizer = read(EPOCH, "optimizer");
    assert!(optimizer.get("exp_avg.last_layer.weight").is_none());
    assert!(optimizer.get("exp_avg.backbone.head.weight").is_some());
    assert!(optimizer.get("step.backbone.head.weight").is_none());
    let count = |step| {
        let state = read(step, "optimizer");
        let count = state.get("step.last_layer.weight").unwrap();
        count.try_to_vec::<i64>().unwrap()
    };
    assert_eq!((count(EPOCH), count(3 * EPOCH)), (vec![0], vec![6]));
    assert_ne!(floats(3 * EPOCH, "model", LAST_LAYER), start);

    // The teacher follows with the momentum of the update that it follows, and the centre moves.
    let name = "backbone.head.weight";
    let momentum = (0.5 + 0.5 * (EPOCH as f64 / 9.0)) as f32;
    let (before, after) = (
        floats(EPOCH, "task.teacher", name),
        floats(EPOCH + 1, "task.teacher", name),
    );
    let student = floats(EPOCH + 1, "model", name);
    assert_ne!(after, student);
    for ((before, after), student) in before.iter().zip(&after).zip(&student) {
        let expected = momentum * before + (1.0 - momentum) * student;
        assert!((after - expected).abs() < 1e-6, "{after}, not {expected}");
    }
    assert_ne!(before, after);
    assert_ne!(
        floats(EPOCH, "task.centre", "centre"),
        floats(3 * EPOCH, "task.centre", "centre")
    );

    // Judged by its own metric, the lowest is the best.
    let entropies: Vec<f64> = run
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Eval(eval) => eval.metrics.get("entropy"),
            _ => None,
        })
        .collect();
    assert_eq!(entropies.len(), 3);
    let lowest = entropies.iter().copied().fold(f64::INFINITY, f64::min);
    let epoch = entropies.iter().position(|&x| x == lowest).unwrap() as u64 + 1;
    let best = workspace.read("run/checkpoints/best");
    assert_eq!(best.trim(), format!("step-{:08}", epoch * EPOCH));
    assert_eq!(workspace.log("run").len(), run.events.len());

    // And it is a column of the table of epochs.
    let table = workspace.read("run/epochs.csv");
    let (header, rows) = table.split_once('\n').unwrap();
    let expected = "epoch,train_loss,lr,val_entropy,val_ema_entropy,seconds,images_per_second";
    assert_eq!(header, expected);
    for (row, entropy) in rows.lines().zip(&entropies) {
        assert_eq!(row.split(',').nth(3).unwrap(), entropy.to_string());
    }
}

/// A checkpoint of one task is not restored into another.
#[test]
fn the_state_of_another_task_is_refused() {
    let workspace = Workspace::with_data(6, 2);
    let plan = plan(&workspace, "run", &["train.epochs=1"]);
    train(&plan, Start::New, None).end.unwrap();
    let error = workspace.error(&["eval", "--run", "run", "--checkpoint", "last"]);
    assert!(error.contains("`cls_token` is missing"), "{error}");

    let run = RunDir::create(&plan.run.dir, true).unwrap();
    let splits = Splits::open(&plan, (16, 16), None, &mut |_, _| {}).unwrap();
    let checkpoints = Checkpointer::new(&run, splits.state(), 1);
    let config = Distil::model(&plan, &splits).unwrap();
    let device = Device::flex().autodiff();
    let mut setup = Setup {
        plan: &plan,
        model: &config,
        splits: &splits,
        weights: Weights::OfPlan,
        device: &device,
        notes: &mut Vec::new(),
    };
    let (mut task, network) = Distil::start(&mut setup).unwrap();
    task.centre_file = "queue";
    let other = TrainState {
        optimizer: Optimizer::new(&plan.optim, &network),
        ema: None,
        loss_scale: None,
        task,
        network,
    };
    let restored = checkpoints.restore(Which::Last, other, |_| Ok(()));
    let error = restored.err().unwrap().to_string();
    assert!(error.contains("has no `task.queue.safetensors`"), "{error}");
    assert!(error.contains("another task"), "{error}");
}

/// What is kept of a step that is not finite is read again, and is what the step was computed on, also where an
/// unreadable image was replaced by another.
#[test]
fn the_dump_is_what_the_step_saw() {
    let workspace = Workspace::with_data(6, 2);
    for class in ["a", "b", "c"] {
        workspace.write(&format!("data/train/{class}/003.png"), "no image");
    }
    let plan = plan(&workspace, "run", &["data.on_error=skip", "data.workers=2"]);
    let seen = Seen::default();
    FAILS.set(Some((4, seen.clone())));
    let run = train(&plan, Start::New, None);
    FAILS.set(None);
    let seen = seen.lock().unwrap();
    let error = run.end.unwrap_err();
    assert!(
        matches!(error, TrainError::NotFinite { step: 5, .. }),
        "{error}"
    );
    let dump = workspace.path("run/nonfinite-step-5");
    let images = read_weights(&dump.join("batch.safetensors"));
    // Two micro-batches of two views.
    let names = ["images.0", "images.0.view.1", "images.1", "images.1.view.1"];
    assert_eq!((images.len(), seen.len()), (names.len(), names.len()));
    for (name, seen) in names.iter().zip(&*seen) {
        let found = images.get(name).unwrap();
        assert_eq!(found.shape(), seen.shape(), "{name}");
        let floats = |data: &TensorData| data.try_to_vec::<f32>().unwrap();
        assert!(floats(found) == floats(seen), "{name}");
    }
    let files = workspace.read("run/nonfinite-step-5/batch.json");
    let files: Vec<(String, u32)> = serde_json::from_str(&files).unwrap();
    assert_eq!(files.len(), 6);
    assert!(files.iter().all(|(path, _)| !path.ends_with("003.png")));
    // The weights before it: those of the last checkpoint, which was made one update earlier.
    let weights = |path: &Path| fs_err::read(path.join("model.safetensors")).unwrap();
    assert!(weights(&dump) == weights(&workspace.last_checkpoint("run")));
}
