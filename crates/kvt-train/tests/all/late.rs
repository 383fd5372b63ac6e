//! Updates about which the device decides, and whose numbers the host reads one update late: the same run.

use std::sync::atomic::AtomicBool;

use burn::tensor::{Device, Tensor};
use kvt_models::weights::StateDict;
use kvt_models::{Model, ModelConfig, ModelOverrides};
use kvt_ops::Key;
use kvt_train::config::{Plan, load_plan};
use kvt_train::data::{DataError, DeviceBatch, Splits};
use kvt_train::device;
use kvt_train::engine::{
    Checkpointer, End, Late, Pending, Processes, Progress, Reader, Recorder, Session, Start,
    Started, TrainError, TrainState, Trainer, Update, UpdateError, UpdateSettings,
};
use kvt_train::recipe::{
    Clip, Ema, LossScale, OptimConfig, OptimName, Optimizer, Position, Rates, Schedule,
};
use kvt_train::run::Event;
use kvt_train::task::{Classify, Task, build_model, model_config};

use crate::support::{Heard, Workspace, set, steps, take_run};

/// A small Visformer, whose running statistics a forward pass changes.
fn state(name: OptimName) -> TrainState<Classify> {
    let overrides = ModelOverrides {
        strides: Some(vec![2, 2, 1, 2]),
        embed_dim: Some(8.into()),
        depth: Some(vec![1, 1, 1].into()),
        num_heads: Some(2.into()),
        img_size: Some(16),
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
        ema: Some(Ema::new(&model)),
        network: model,
        task: Classify::new(&Plan::default(), None),
        loss_scale: None,
    }
}

/// Two images. The pixels of the second are multiplied by `factor`.
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

/// The average too.
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

/// Whatever clips the gradients: four updates, of which each is read after the next was started.
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

/// Neither the update that is spoilt nor the one that was started behind it. Afterwards there are others.
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
            drop(next);
            let pending = on_its_way(start(&mut state, 8, 1.0, clip, Some(&reader)));
            assert!(state.finish(pending).unwrap().loss.is_finite());
            let (_, count) = state.optimizer.state();
            assert_eq!(count as usize, updates + 1);
            assert!(trained(&state) != before);
        }
    }
}

/// Other optimizers, and a loss scale that depends on what came of the update.
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

/// Trains `tiny.toml` with a reader or without.
fn train(
    workspace: &Workspace,
    run: &str,
    overrides: &[&str],
    reader: Option<Reader>,
) -> (Vec<Event>, Result<End, TrainError>) {
    let mut all = vec![
        set("data.path", &workspace.path("data")),
        set("run.dir", &workspace.path(run)),
    ];
    all.extend(overrides.iter().map(|&text| text.to_owned()));
    let plan = load_plan(&workspace.path("tiny.toml"), &all).unwrap();
    // Leaves the run's folder as training finds it.
    drop(Session::<Classify>::prepare(plan.clone(), Start::New, &mut |_, _| {}).unwrap());
    let folder = take_run(&plan.run.dir);
    let device = device::resolve("cpu").unwrap().device;
    let splits = Splits::open(&plan, (16, 16), None, &mut |_, _| {}).unwrap();
    let config = model_config(&plan.model, Some(3)).unwrap();
    let model = build_model(&plan, &config, &device.clone().autodiff()).unwrap();
    let mut heard = Heard::default();
    let (mut recorder, _) =
        Recorder::open(&folder, None, false, Classify::METRICS, &mut heard).unwrap();
    let end = Trainer {
        plan: &plan,
        splits: &splits,
        device: device.autodiff(),
        state: TrainState {
            optimizer: Optimizer::new(&plan.optim, &model),
            ema: Some(Ema::new(&model)),
            loss_scale: None,
            network: model,
            task: Classify::new(&plan, None),
        },
        schedule: Schedule::new(plan.schedule.clone(), plan.optim.lr, 3, plan.train.epochs),
        progress: Progress::default(),
        checkpoints: Checkpointer::new(&folder, splits.state(), 100),
        saved: false,
        processes: Processes::alone(),
        late: Late::by(reader),
        skipped: Vec::new(),
        recorder: &mut recorder,
        stop: &AtomicBool::new(false),
    }
    .run();
    drop(recorder);
    (heard.into_events(), end)
}

/// What a run tells, without times.
fn told(events: &[Event]) -> Vec<String> {
    events
        .iter()
        .map(|event| match event {
            Event::Step(step) => format!(
                "{} {} {} {} {}",
                step.step, step.epoch, step.loss, step.lr, step.grad_norm
            ),
            Event::Epoch(epoch) => format!("{} {} {}", epoch.step, epoch.epoch, epoch.train_loss),
            other => format!("{other:?}"),
        })
        .collect()
}

/// Log, evaluations and every checkpoint, also within an epoch and where the log has a line for two updates.
#[test]
fn a_run_tells_and_saves_the_same() {
    let workspace = Workspace::with_data(6, 2);
    for overrides in [
        &["checkpoint.every_steps=1", "optim.clip_norm=0.5"][..],
        &["checkpoint.every_steps=2", "log.every_steps=2"],
        &["train.accumulate=2", "train.max_steps=3"],
    ] {
        let (events, end) = train(&workspace, "at-once", overrides, None);
        assert_eq!(end.unwrap(), End::Finished);
        let (late_events, end) = train(&workspace, "late", overrides, Reader::start());
        assert_eq!(end.unwrap(), End::Finished);
        assert!(!steps(&events).is_empty());
        assert_eq!(told(&late_events), told(&events), "{overrides:?}");
        let mut names = workspace.entries("at-once/checkpoints");
        names.retain(|name| name.starts_with("step-"));
        assert!(names.len() > 1);
        for name in names {
            for file in ["model", "optimizer", "ema"] {
                let read = |run: &str| {
                    let path = format!("{run}/checkpoints/{name}/{file}.safetensors");
                    fs_err::read(workspace.path(&path)).unwrap()
                };
                assert!(
                    read("late") == read("at-once"),
                    "{overrides:?}: {name} {file}"
                );
            }
        }
        for run in ["at-once", "late"] {
            fs_err::remove_dir_all(workspace.path(run)).unwrap();
        }
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
        let (events, end) = train(&workspace, "at-once", &overrides, None);
        let error = end.unwrap_err().to_string().replace("at-once", "late");
        let (late_events, end) = train(&workspace, "late", &overrides, Reader::start());
        let late_error = end.unwrap_err();
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
        for run in ["at-once", "late"] {
            fs_err::remove_dir_all(workspace.path(run)).unwrap();
        }
    }
}

/// The update before an unreadable image was on its way when it was met.
#[test]
fn an_error_of_the_data_comes_after_the_update_before_it() {
    let mut told_of_steps = 0;
    for image in ["000", "002", "004"] {
        let workspace = Workspace::with_data(6, 1);
        workspace.write(&format!("data/train/b/{image}.png"), "no image");
        let overrides = ["data.on_error=fail"];
        let (events, end) = train(&workspace, "at-once", &overrides, None);
        let error = end.unwrap_err().to_string();
        let (late_events, end) = train(&workspace, "late", &overrides, Reader::start());
        assert_eq!(end.unwrap_err().to_string(), error);
        assert_eq!(told(&late_events), told(&events));
        let read = |run: &str| {
            let folder = workspace.last_checkpoint(run);
            fs_err::read(folder.join("optimizer.safetensors")).unwrap()
        };
        assert!(read("late") == read("at-once"), "{image}");
        told_of_steps += steps(&events).len();
    }
    assert!(told_of_steps > 0);
}
