//! Updates decided by the device, whose numbers the host reads one update late, give the same run.

use std::sync::atomic::AtomicBool;

use burn::tensor::{Device, Tensor};
use kvt_models::weights::StateDict;
use kvt_models::{Model, ModelConfig, ModelOverrides};
use kvt_ops::Key;
use kvt_train::config::{Plan, load_plan};
use kvt_train::data::{DataError, DeviceBatch};
use kvt_train::engine::{
    End, Pending, Processes, Reader, Session, Start, Started, TrainError, TrainState, Update,
    UpdateError, UpdateSettings,
};
use kvt_train::recipe::{Clip, Ema, LossScale, OptimConfig, OptimName, Optimizer, Position, Rates};
use kvt_train::run::Event;
use kvt_train::task::{Classify, Dino, Task, TaskKind};
use kvt_train::world::on_device::GradientSum;
use kvt_train::world::{alone, threads};
use serde_json::Value;

use crate::support::{Heard, Workspace, set, steps};

/// A small Visformer, whose running statistics change in the forward pass.
fn state(name: OptimName) -> TrainState<Classify> {
    let overrides = ModelOverrides {
        strides: Some(vec![2, 2, 1, 2]),
        embed_dim: Some(8.into()),
        depth: Some(vec![1, 1, 1].into()),
        num_heads: Some(2.into()),
        img_size: Some(16.into()),
        num_classes: Some(3),
        ..ModelOverrides::default()
    };
    let config = ModelConfig::by_name("visformer_tiny").unwrap();
    let config = config.with(&overrides).unwrap();
    let device = Device::flex().autodiff();
    let model: Model = config.init(&device, Key::new(1)).unwrap();
    let optim = OptimConfig {
        name,
        ..OptimConfig::default()
    };
    TrainState {
        optimizer: Optimizer::new(&optim, &model),
        ema: Some(Ema::new(&model, [])),
        network: model,
        task: Classify::new(&Plan::default(), None),
        loss_scale: None,
    }
}

/// Two images. The pixels of the second one are multiplied by `factor`.
fn batch(seed: usize, factor: f32) -> Result<DeviceBatch, DataError> {
    let device = Device::flex().autodiff();
    let pixels = (0..2 * 3 * 16 * 16).map(|i| (i * 29 + seed * 7) % 97);
    let pixels: Vec<f32> = pixels.map(|x| x as f32 / 48.0 - 1.0).collect();
    let images = Tensor::<1>::from_data(pixels.as_slice(), &device).reshape([2, 3, 16, 16]);
    let factors = Tensor::<1>::from_data([1.0, factor], &device).reshape([2, 1, 1, 1]);
    Ok(DeviceBatch {
        views: vec![images * factors],
        targets: vec![0, 1],
        indices: vec![0, 1],
    })
}

fn settings(clip: Clip) -> UpdateSettings {
    UpdateSettings {
        seed: 1,
        rates: Rates {
            lr: 1e-2,
            weight_decay: 0.05,
        },
        clip,
        ema_decay: 0.9,
    }
}

/// An update of two micro-batches.
fn start(
    state: &mut TrainState<Classify>,
    number: usize,
    factor: f32,
    clip: Clip,
    reader: Option<&Reader>,
) -> Started {
    let batches = [batch(2 * number, 1.0), batch(2 * number + 1, factor)];
    let at = Position::default();
    let processes = Processes::alone();
    state
        .start(&processes, batches, at, settings(clip), reader)
        .unwrap()
}

fn on_its_way(started: Started) -> Pending {
    match started {
        Started::OnItsWay(pending) => pending,
        Started::Done(update) => panic!("{update:?} is known"),
    }
}

/// Weights, running statistics, moments and counts, as bytes.
fn trained(state: &TrainState<Classify>) -> Vec<(String, Vec<u8>)> {
    let of = |dict: StateDict| {
        let tensors = dict.iter();
        let named = tensors.map(|(name, data)| (name.to_owned(), data.as_bytes().to_vec()));
        named.collect::<Vec<_>>()
    };
    let (moments, updates) = state.optimizer.state();
    let mut all = of(StateDict::from_model(&state.network).unwrap());
    all.extend(of(moments.into_iter().collect()));
    all.push(("updates".to_owned(), updates.to_le_bytes().to_vec()));
    all
}

/// The same with the average.
fn bytes(state: &TrainState<Classify>) -> Vec<(String, Vec<u8>)> {
    let average = state.ema.as_ref().unwrap().network();
    let average = StateDict::from_model(average).unwrap();
    let average = average
        .iter()
        .map(|(name, data)| (format!("ema.{name}"), data.as_bytes().to_vec()));
    trained(state).into_iter().chain(average).collect()
}

#[track_caller]
fn assert_same(actual: &[(String, Vec<u8>)], expected: &[(String, Vec<u8>)], what: &str) {
    assert_eq!(actual.len(), expected.len(), "{what}");
    for (actual, expected) in actual.iter().zip(expected) {
        assert!(actual == expected, "{what}: {} is another", expected.0);
    }
}

/// For every kind of clipping: four updates, each read after the next one was started.
#[test]
fn what_is_read_late_is_the_same() {
    let reader = Reader::start().unwrap();
    for clip in [
        Clip::Norm(0.5),
        Clip::Norm(1e3),
        Clip::Off,
        Clip::Value(1e-3),
        Clip::Parameter(0.1),
        Clip::Adaptive(0.02),
    ] {
        let mut at_once = state(OptimName::Adamw);
        let expected: Vec<Update> = (0..4)
            .map(
                |number| match start(&mut at_once, number, 1.0, clip, None) {
                    Started::Done(update) => update,
                    Started::OnItsWay(_) => panic!("nobody reads late"),
                },
            )
            .collect();
        let mut late = state(OptimName::Adamw);
        let mut found = Vec::new();
        let mut before: Option<Pending> = None;
        for number in 0..4 {
            let pending = on_its_way(start(&mut late, number, 1.0, clip, Some(&reader)));
            if let Some(before) = before.replace(pending) {
                found.push(late.finish(before).unwrap());
            }
        }
        found.push(late.finish(before.unwrap()).unwrap());
        assert_eq!(found, expected, "{clip:?}");
        assert_same(&bytes(&late), &bytes(&at_once), &format!("{clip:?}"));
    }
}

/// Neither the non-finite update nor the one started after it is made. Later updates are.
#[test]
fn what_is_not_finite_changes_nothing() {
    let reader = Reader::start().unwrap();
    for updates in [0, 2] {
        for factor in [f32::NAN, f32::INFINITY] {
            let mut state = state(OptimName::Adamw);
            let clip = Clip::Norm(0.5);
            for number in 0..updates {
                let pending = on_its_way(start(&mut state, number, 1.0, clip, Some(&reader)));
                state.finish(pending).unwrap();
            }
            let before = trained(&state);
            let spoilt = on_its_way(start(&mut state, 7, factor, clip, Some(&reader)));
            let next = on_its_way(start(&mut state, 8, 1.0, clip, Some(&reader)));
            let error = state.finish(spoilt).unwrap_err();
            assert!(matches!(error, UpdateError::NotFinite(_)), "{error}");
            assert_same(&trained(&state), &before, &format!("after {updates}"));
            // It is finite itself; it was refused because of the one before it.
            let error = state.finish(next).unwrap_err();
            assert!(matches!(error, UpdateError::Refused(_)), "{error}");
            assert_same(&trained(&state), &before, &format!("after {updates}"));
            let pending = on_its_way(start(&mut state, 8, 1.0, clip, Some(&reader)));
            assert!(state.finish(pending).unwrap().loss.is_finite());
            let (_, count) = state.optimizer.state();
            assert_eq!(count as usize, updates + 1);
            assert!(trained(&state) != before);
        }
    }
}

/// The result of the first one was never read.
#[test]
fn an_update_behind_one_that_was_dropped_is_not_called_made() {
    let reader = Reader::start().unwrap();
    let mut state = state(OptimName::Adamw);
    let clip = Clip::Norm(0.5);
    let weights = |state: &TrainState<Classify>| {
        let average = ["running_mean", "running_var"];
        let mut all = trained(state);
        all.retain(|(name, _)| name != "updates" && !average.iter().any(|x| name.ends_with(x)));
        all
    };
    let first = on_its_way(start(&mut state, 0, 1.0, clip, Some(&reader)));
    state.finish(first).unwrap();
    let before = weights(&state);
    drop(on_its_way(start(
        &mut state,
        1,
        f32::NAN,
        clip,
        Some(&reader),
    )));
    let next = on_its_way(start(&mut state, 2, 1.0, clip, Some(&reader)));
    let error = state.finish(next).unwrap_err();
    assert!(matches!(error, UpdateError::Refused(_)), "{error}");
    assert_same(&weights(&state), &before, "refused");
}

/// Loading a state clears the device's decision about earlier updates.
#[test]
fn a_state_that_is_loaded_is_trained() {
    let reader = Reader::start().unwrap();
    let mut state = state(OptimName::Adamw);
    let first = on_its_way(start(&mut state, 0, 1.0, Clip::Off, Some(&reader)));
    state.finish(first).unwrap();
    let (moments, updates) = state.optimizer.state();
    drop(on_its_way(start(
        &mut state,
        1,
        f32::NAN,
        Clip::Off,
        Some(&reader),
    )));
    let TrainState {
        optimizer, network, ..
    } = &mut state;
    optimizer.load_state(moments, updates, network).unwrap();
    let next = on_its_way(start(&mut state, 2, 1.0, Clip::Off, Some(&reader)));
    assert!(state.finish(next).unwrap().made);
}

/// Here the host decides. The running statistics of batch norms, which forward passes changed, are restored, too.
#[test]
fn what_is_not_finite_changes_nothing_at_once() {
    for name in [OptimName::Adamw, OptimName::Sgd] {
        let mut state = state(name);
        let at = Position::default();
        let clip = settings(Clip::Norm(0.5));
        state.update([batch(0, 1.0)], at, clip).unwrap();
        let before = bytes(&state);
        let error = state.update([batch(1, 1.0), batch(2, f32::NAN)], at, clip);
        assert!(matches!(error.unwrap_err(), UpdateError::NotFinite(_)));
        assert_same(&bytes(&state), &before, "at once");
    }
}

/// The other processes must know the result, too.
#[test]
fn processes_wait_for_each_update() {
    let done = threads(2, |world| {
        let processes = Processes::new(world, false, GradientSum::Host);
        let mut state = state(OptimName::Adamw);
        let (at, settings) = (Position::default(), settings(Clip::Off));
        let reader = Reader::start();
        let started = state.start(&processes, [batch(0, 1.0)], at, settings, reader.as_ref());
        matches!(started.unwrap(), Started::Done(_))
    });
    assert_eq!(done, [true; 2]);
}

/// Other optimizers, and a loss scale that depends on the result of the update.
#[test]
fn what_must_be_known_is_waited_for() {
    let reader = Reader::start().unwrap();
    for name in [
        OptimName::Sgd,
        OptimName::Lamb,
        OptimName::Lion,
        OptimName::Muon,
    ] {
        let started = start(&mut state(name), 0, 1.0, Clip::Off, Some(&reader));
        assert!(matches!(started, Started::Done(_)), "{name:?}");
    }
    let mut scaled = state(OptimName::Adamw);
    scaled.loss_scale = LossScale::of(kvt_models::Precision::F16);
    let started = start(&mut scaled, 0, 1.0, Clip::Off, Some(&reader));
    assert!(matches!(started, Started::Done(_)));
}

/// The result of a run, and its events.
type Outcome = (Result<End, TrainError>, Vec<Event>);

/// Trains `tiny.toml`, reading late or at once; it is asked to stop after reporting update `stop`.
fn train(
    workspace: &Workspace,
    run: &str,
    overrides: &[&str],
    (start, stop): (Start<'_>, Option<u64>),
    is_late: bool,
) -> Outcome {
    let mut all = vec![
        set("data.path", &workspace.path("data")),
        set("run.dir", &workspace.path(run)),
        "checkpoint.keep_last=100".to_owned(),
        "log.every_steps=1".to_owned(),
    ];
    all.extend(overrides.iter().map(|&text| text.to_owned()));
    let plan = load_plan(&workspace.path("tiny.toml"), &all).unwrap();
    match plan.task {
        TaskKind::Dino => run_of::<Dino>(plan, (start, stop), is_late),
        _ => run_of::<Classify>(plan, (start, stop), is_late),
    }
}

fn run_of<T: Task>(plan: Plan, (start, stop): (Start<'_>, Option<u64>), is_late: bool) -> Outcome {
    let reader = is_late.then(|| Reader::start().unwrap());
    let flag = AtomicBool::new(false);
    let mut heard = Heard {
        events: Vec::new(),
        stop: stop.map(|at| (at, &flag)),
    };
    let session = Session::<T>::prepare(alone(), plan, start, &mut |_, _| {}).unwrap();
    let end = session.with_reader(reader).train(&mut heard, &flag);
    (end, heard.events)
}

/// The runs `at-once` and `late`, from the start.
fn both(workspace: &Workspace, overrides: &[&str]) -> [Outcome; 2] {
    ["at-once", "late"].map(|run| {
        let _ = fs_err::remove_dir_all(workspace.path(run));
        train(workspace, run, overrides, (Start::New, None), run == "late")
    })
}

/// The events of a run, without times.
fn told(events: &[Event]) -> Vec<String> {
    events
        .iter()
        .map(|event| match event {
            Event::Step(step) => format!(
                "{} {} {} {} {} {:?}",
                step.step, step.epoch, step.loss, step.lr, step.grad_norm, step.metrics
            ),
            Event::Epoch(epoch) => format!("{} {} {}", epoch.step, epoch.epoch, epoch.train_loss),
            other => format!("{other:?}").replace("at-once", "late"),
        })
        .collect()
}

/// Removes times, and offsets in the log.
fn timeless(value: &mut Value) {
    match value {
        Value::Object(entries) => {
            for time in ["seconds", "data_wait", "communication", "log_offset"] {
                entries.remove(time);
            }
            entries.values_mut().for_each(timeless);
        }
        Value::Array(values) => values.iter_mut().for_each(timeless),
        _ => {}
    }
}

/// The whole state of a checkpoint: every file, and the time-independent part of `state.json`.
#[track_caller]
fn assert_same_checkpoint(workspace: &Workspace, name: &str, what: &str) {
    let folder = |run: &str| format!("{run}/checkpoints/{name}");
    let mut files = workspace.entries(&folder("at-once"));
    let mut late = workspace.entries(&folder("late"));
    files.sort();
    late.sort();
    assert_eq!(late, files, "{what}: {name}");
    assert!(files.len() > 2);
    for file in files {
        // It has sizes and hashes of the other files.
        if file == "manifest.json" {
            continue;
        }
        let read = |run: &str| fs_err::read(workspace.path(&folder(run)).join(&file)).unwrap();
        if file.ends_with(".json") {
            let [late, at_once] = ["late", "at-once"].map(|run| {
                let mut value: Value = serde_json::from_slice(&read(run)).unwrap();
                timeless(&mut value);
                value
            });
            assert_eq!(late, at_once, "{what}: {name} {file}");
        } else {
            assert!(read("late") == read("at-once"), "{what}: {name} {file}");
        }
    }
}

/// The names of a run's checkpoints.
fn checkpoints(workspace: &Workspace, run: &str) -> Vec<String> {
    let mut names = workspace.entries(&format!("{run}/checkpoints"));
    names.retain(|name| name.starts_with("step-"));
    names.sort();
    names
}

/// Log, evaluations and every checkpoint, also within an epoch and with one log line per two updates; with an average that warms
/// up, a teacher, and a task with signals and its own state. An unreadable image is reported where it was met.
#[test]
fn a_run_tells_and_saves_the_same() {
    let workspace = Workspace::with_data(6, 2);
    workspace.write("data/train/b/003.png", "no image");
    let (skip, often) = ("data.on_error=skip", "checkpoint.every_steps=1");
    let (end, _) = train(&workspace, "teacher", &[skip], (Start::New, None), false);
    end.unwrap();
    let teacher = set("distill.teacher", &workspace.path("teacher"));
    let dino = [
        "task=dino",
        "dino.out_dim=12",
        "dino.hidden_dim=20",
        "dino.bottleneck_dim=8",
        "dino.local_views=2",
        "dino.local_size=8",
        // A collapse is reported, with the number of its update.
        "dino.teacher_temp=100.0",
        "dino.warmup_teacher_temp=100.0",
    ];
    for overrides in [
        &[skip, often, "optim.clip_norm=0.5"][..],
        &[skip, "checkpoint.every_steps=2", "log.every_steps=2"],
        &[skip, "train.accumulate=2", "train.max_steps=3"],
        &[skip, often, "ema.decay=0.9", "ema.warmup=true"],
        &[skip, often, "distill.kind=soft", &teacher],
        &[&[skip, often][..], &dino].concat(),
    ] {
        let [(end, events), (late_end, late_events)] = both(&workspace, overrides);
        assert_eq!(end.unwrap(), End::Finished);
        assert_eq!(late_end.unwrap(), End::Finished);
        assert_eq!(told(&late_events), told(&events), "{overrides:?}");
        let names = checkpoints(&workspace, "at-once");
        assert!(names.len() > 1);
        assert_eq!(checkpoints(&workspace, "late"), names);
        for name in names {
            assert_same_checkpoint(&workspace, &name, &format!("{overrides:?}"));
        }
        assert!(!steps(&late_events).is_empty());
        // Each update took some time, and no time was counted twice.
        for step in steps(&late_events) {
            assert!(step.images_per_second.is_finite() && step.images_per_second > 0.0);
        }
    }
}

/// Within an epoch: the pending update is finished, reported and saved. The run then continues as if nothing had happened.
#[test]
fn a_run_that_is_stopped_goes_on() {
    let workspace = Workspace::with_data(6, 2);
    let overrides = ["ema.decay=0.9", "model.drop_path=0.2"];
    let [(end, events), _] = both(&workspace, &overrides);
    end.unwrap();
    let _ = fs_err::remove_dir_all(workspace.path("late"));
    let (end, mut late) = train(&workspace, "late", &overrides, (Start::New, Some(1)), true);
    assert_eq!(end.unwrap(), End::Stopped);
    let told_of: Vec<u64> = steps(&late).iter().map(|step| step.step).collect();
    // The second update was pending when the first was reported.
    assert_eq!(told_of, [1, 2]);
    assert!(matches!(late.pop(), Some(Event::Note(note)) if note.step == 2));
    let (end, rest) = train(&workspace, "late", &overrides, (Start::RESUME, None), true);
    assert_eq!(end.unwrap(), End::Finished);
    let of_steps = |events: &[Event]| {
        let mut events = events.to_vec();
        events.retain(|event| !matches!(event, Event::Note(_)));
        told(&events)
    };
    late.extend(rest);
    assert_eq!(of_steps(&late), of_steps(&events));
    let last = checkpoints(&workspace, "at-once").pop().unwrap();
    for file in ["model", "optimizer", "ema"] {
        let read = |run: &str| {
            let path = format!("{run}/checkpoints/{last}/{file}.safetensors");
            fs_err::read(workspace.path(&path)).unwrap()
        };
        assert!(read("late") == read("at-once"), "{file}");
    }
}

/// The second step is not finite: within the epoch, and as the last one of the run.
#[test]
fn a_run_stops_at_the_step_that_was_not_finite() {
    let workspace = Workspace::with_data(6, 1);
    for last in ["train.epochs=2", "train.max_steps=2"] {
        let overrides = [
            "optim.lr=1e30",
            "optim.clip_norm=0",
            "schedule.warmup_epochs=0",
            last,
        ];
        let [(end, events), (late_end, late_events)] = both(&workspace, &overrides);
        let error = end.unwrap_err().to_string().replace("at-once", "late");
        let late_error = late_end.unwrap_err();
        assert!(matches!(late_error, TrainError::NotFinite { step: 2, .. }));
        assert_eq!(late_error.to_string(), error);
        assert_eq!(told(&late_events), told(&events));
        for file in ["model.safetensors", "batch.safetensors", "batch.json"] {
            let read = |run: &str| {
                let path = format!("{run}/nonfinite-step-2/{file}");
                fs_err::read(workspace.path(&path)).unwrap()
            };
            assert!(read("late") == read("at-once"), "{last}: {file}");
        }
    }
}

/// The update before an unreadable image was pending when the image was met.
#[test]
fn an_error_of_the_data_comes_after_the_update_before_it() {
    let mut told_of_steps = 0;
    for image in ["000", "002", "004"] {
        let workspace = Workspace::with_data(6, 1);
        workspace.write(&format!("data/train/b/{image}.png"), "no image");
        let overrides = ["data.on_error=fail", "ema.decay=0.9"];
        let [(end, events), (late_end, late_events)] = both(&workspace, &overrides);
        let error = end.unwrap_err().to_string();
        assert_eq!(late_end.unwrap_err().to_string(), error);
        assert_eq!(told(&late_events), told(&events));
        let last = checkpoints(&workspace, "at-once").pop().unwrap();
        assert_same_checkpoint(&workspace, &last, image);
        told_of_steps += steps(&events).len();
    }
    assert!(told_of_steps > 0);
}
