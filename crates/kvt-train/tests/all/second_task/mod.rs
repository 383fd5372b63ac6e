//! The engine trains more than classifiers: a small self-supervised task, with a student and a teacher, two views of each
//! image, a centre, and a layer that is left out of the first epoch.

mod distil;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use burn::module::Param;
use burn::tensor::{Device, Tensor, TensorData};
use kvt_train::augment::{AugmentConfig, Preset, Transform};
use kvt_train::config::Plan;
use kvt_train::data::Splits;
use kvt_train::device;
use kvt_train::engine::{
    Checkpointer, End, Progress, Recorder, Restored, Session, Start, TrainError, TrainState,
    Trainer, build_model, load_plan, model_config,
};
use kvt_train::recipe::{Optimizer, Schedule};
use kvt_train::run::{Event, Listener, RunError, Which};

use self::distil::{Distil, FEATURES, LAST_LAYER, OUTPUTS, Student};
use crate::support::{Workspace, read_weights, set, steps, take_run};

/// Updates of an epoch: 18 images, two micro-batches of three at a time.
const EPOCH: u64 = 3;

/// Hears of all, and ends the run with an error after some update, as a kill would: nothing is saved then.
struct Killer {
    at: Option<u64>,
    events: Vec<Event>,
}

impl Listener for Killer {
    fn event(&mut self, event: &Event) -> Result<(), RunError> {
        self.events.push(event.clone());
        match event {
            Event::Step(step) if Some(step.step) == self.at => {
                Err(RunError::Io(std::io::Error::other("killed")))
            }
            _ => Ok(()),
        }
    }
}

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

fn fresh(plan: &Plan, device: &Device) -> TrainState<Distil> {
    let config = model_config(&plan.model, Some(FEATURES)).unwrap();
    let values: Vec<f32> = (0..FEATURES * OUTPUTS).map(|i| (i as f32).sin()).collect();
    let last_layer = TensorData::new(values, [FEATURES, OUTPUTS]);
    let network = Student {
        backbone: build_model(plan, &config, device).unwrap(),
        last_layer: Param::from_tensor(Tensor::from_data(last_layer, device)),
    };
    TrainState {
        task: Distil::new(&network, device),
        optimizer: Optimizer::new(&plan.optim, &network),
        ema: None,
        network,
    }
}

/// Two views of each image: one as the plan has it, and one with a random crop.
fn splits(plan: &Plan) -> Splits {
    let transform = |preset, hflip| {
        let config = AugmentConfig {
            preset,
            mean: [0.5; 3],
            std: [0.25; 3],
            scale: [0.4, 1.0],
            hflip,
            padding: 0,
            ..AugmentConfig::default()
        };
        Arc::new(Transform::train(&config, (16, 16)).unwrap())
    };
    let views = vec![
        transform(Preset::None, 0.5),
        transform(Preset::Imagenet, 0.5),
    ];
    let splits = Splits::open(plan, (16, 16), None, &mut |_, _| {}).unwrap();
    splits.with_train_views(views)
}

/// What a run came to.
struct Run {
    end: Result<End, TrainError>,
    events: Vec<Event>,
    progress: Progress,
    seen: Vec<TensorData>,
}

fn train(plan: &Plan, resume: bool, killed_at: Option<u64>, fails_at: Option<u64>) -> Run {
    if !resume {
        // Leaves the run's folder as training finds it.
        drop(Session::prepare(plan.clone(), Start::New, &mut |_, _| {}).unwrap());
    }
    let run = take_run(&plan.run.dir);
    let device = device::resolve("cpu").unwrap().device.autodiff();
    let splits = splits(plan);
    let checkpoints = Checkpointer::new(&run, splits.state(), plan.checkpoint.keep_last);
    let mut state = fresh(plan, &device);
    let (mut progress, mut resumed) = (Progress::default(), None);
    if resume {
        let restored = checkpoints.restore(Which::Last, state, || Ok(())).unwrap();
        let log = restored.log_offset;
        Restored {
            state,
            progress,
            ..
        } = restored;
        resumed = Some((log, progress.position.step));
    }
    state.task.fails_at = fails_at;
    let mut killer = Killer {
        at: killed_at,
        events: Vec::new(),
    };
    let (mut recorder, _) = Recorder::open(&run, resumed, false, &mut killer).unwrap();
    let mut trainer = Trainer {
        plan,
        splits: &splits,
        device,
        state,
        schedule: Schedule::new(plan.schedule.clone(), plan.optim.lr, EPOCH, 3),
        progress,
        checkpoints,
        saved: resume,
        recorder: &mut recorder,
        stop: &AtomicBool::new(false),
    };
    let end = trainer.run();
    let (progress, seen) = (trainer.progress, trainer.state.task.seen);
    Run {
        end,
        events: killer.events,
        progress,
        seen,
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
    let whole = train(&plan(&workspace, "whole", &[]), false, None, None);
    assert_eq!(whole.end.unwrap(), End::Finished);
    assert_eq!(steps(&whole.events).len() as u64, 3 * EPOCH);

    // In the first epoch, where the last layer has no moments, and later.
    for killed_at in [3, 5, 8] {
        let plan = plan(&workspace, &format!("killed-{killed_at}"), &[]);
        let killed = train(&plan, false, Some(killed_at), None);
        assert!(killed.end.is_err());
        let resumed = train(&plan, true, None, None);
        assert_eq!(resumed.end.unwrap(), End::Finished);
        assert_eq!(resumed.progress.best, whole.progress.best);
        let losses = |events: &[Event]| -> Vec<(u64, u64)> {
            let steps = steps(events);
            steps.iter().map(|s| (s.step, s.loss.to_bits())).collect()
        };
        let tail = losses(&resumed.events);
        assert!(!tail.is_empty() && losses(&whole.events).ends_with(&tail));
        let [expected, found] = ["whole".to_owned(), format!("killed-{killed_at}")]
            .map(|run| workspace.last_checkpoint(&run));
        assert!(files(&expected) == files(&found), "killed at {killed_at}");
    }
}

#[test]
fn its_own_state_and_what_it_leaves_out() {
    let workspace = Workspace::with_data(6, 2);
    let plan = plan(&workspace, "run", &[]);
    let run = train(&plan, false, None, None);
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
    assert_eq!(run.progress.best.unwrap().value, lowest);
    assert_eq!(workspace.log("run").len(), run.events.len());
}

/// A checkpoint of one task is not restored into another.
#[test]
fn the_state_of_another_task_is_refused() {
    let workspace = Workspace::with_data(6, 2);
    let plan = plan(&workspace, "run", &["train.epochs=1"]);
    train(&plan, false, None, None).end.unwrap();
    let error = workspace.error(&["eval", "--run", "run", "--checkpoint", "last"]);
    assert!(error.contains("`cls_token` is missing"), "{error}");

    let run = take_run(&plan.run.dir);
    let checkpoints = Checkpointer::new(&run, splits(&plan).state(), 1);
    let mut other = fresh(&plan, &Device::flex().autodiff());
    other.task.centre_file = "queue";
    let restored = checkpoints.restore(Which::Last, other, || Ok(()));
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
    let run = train(&plan, false, None, Some(4));
    let error = run.end.unwrap_err();
    assert!(
        matches!(error, TrainError::NotFinite { step: 5, .. }),
        "{error}"
    );
    let dump = workspace.path("run/nonfinite-step-5");
    let images = read_weights(&dump.join("batch.safetensors"));
    // Two micro-batches of two views.
    let names = ["images.0", "images.0.view.1", "images.1", "images.1.view.1"];
    assert_eq!((images.len(), run.seen.len()), (names.len(), names.len()));
    for (name, seen) in names.iter().zip(&run.seen) {
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
