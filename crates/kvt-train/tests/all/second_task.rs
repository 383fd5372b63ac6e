//! The engine trains more than classifiers: a small self-supervised task, with a student and a teacher, two views of each
//! image, a centre, and a layer that is left out of the first epoch.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use burn::module::{Module, Param};
use burn::tensor::activation::{log_softmax, softmax};
use burn::tensor::{Device, Tensor, TensorData};
use kvt_models::weights::{LoadOptions, Outcome, StateDict, WeightsError};
use kvt_models::{Model, Parameter};
use kvt_ops::Phase;
use kvt_train::augment::{AugmentPlan, Interpolation, Preset, Transform};
use kvt_train::config::Plan;
use kvt_train::data::{DeviceBatch, Sample, Splits};
use kvt_train::device;
use kvt_train::engine::{
    Checkpointer, End, Progress, Recorder, Restored, Session, Start, TrainError, TrainState,
    Trainer, build_model, load_plan, model_config,
};
use kvt_train::recipe::{
    AdamW, AdamWConfig, Ema, Gradients, Network, Position, Schedule, cross_entropy,
};
use kvt_train::run::{Event, Listener, Metrics, RunDir, RunError, Which};
use kvt_train::task::{BestBy, EvalData, Measured, Task};

use crate::support::{Workspace, read_weights, set, steps};

/// Outputs of the backbone, which is a classifier of three classes, and of the last layer.
const FEATURES: usize = 3;
const OUTPUTS: usize = 4;
/// Updates of an epoch: 18 images, two micro-batches of three at a time.
const EPOCH: u64 = 3;

/// A backbone and a layer behind it.
#[derive(Module, Debug)]
struct Student {
    backbone: Model,
    last_layer: Param<Tensor<2>>,
}

impl Student {
    fn forward(&self, images: Tensor<4>, phase: Phase) -> Tensor<2> {
        let features = self.backbone.forward(images, phase);
        features.matmul(self.last_layer.val())
    }
}

const LAST_LAYER: &str = "last_layer.weight";

impl Network for Student {
    fn parameters(&self) -> Vec<Parameter> {
        let backbone = self.backbone.parameters().into_iter();
        let backbone = backbone.map(|parameter| Parameter {
            name: format!("backbone.{}", parameter.name),
            ..parameter
        });
        let last_layer = Parameter {
            name: LAST_LAYER.to_owned(),
            id: self.last_layer.id,
            shape: vec![FEATURES, OUTPUTS],
        };
        backbone.chain([last_layer]).collect()
    }

    /// As in DINO: whatever has more than one dimension.
    fn decays(&self, parameter: &Parameter) -> bool {
        parameter.shape.len() > 1
    }

    fn state_dict(&self) -> Result<StateDict, WeightsError> {
        let backbone = StateDict::from_model(&self.backbone)?.into_iter();
        let backbone = backbone.map(|(name, data)| (format!("backbone.{name}"), data));
        let last_layer = self.last_layer.val().to_data();
        Ok(backbone
            .chain([(LAST_LAYER.to_owned(), last_layer)])
            .collect())
    }

    fn load_state_dict(self, state: &StateDict) -> Result<(Self, Vec<String>), WeightsError> {
        let backbone = state.iter().filter_map(|(name, data)| {
            let name = name.strip_prefix("backbone.")?;
            Some((name.to_owned(), data.clone()))
        });
        let (backbone, report) = self
            .backbone
            .load(&backbone.collect(), LoadOptions::default())?;
        let last_layer = self.last_layer.map(|old| {
            let trained = old.is_require_grad();
            let data = state.get(LAST_LAYER).unwrap().clone();
            Tensor::from_data(data, &old.device()).set_require_grad(trained)
        });
        let student = Self {
            backbone,
            last_layer,
        };
        let unused = report.names(Outcome::Unused).map(str::to_owned).collect();
        Ok((student, unused))
    }
}

/// The student learns what the teacher, an average of it, says of the other view.
struct Distil {
    teacher: Option<Ema<Student>>,
    /// The mean of the teacher's outputs, `[OUTPUTS]`, without autodiff.
    centre: Tensor<1>,
    /// The update whose loss is no number, and what it was computed on.
    fails_at: Option<u64>,
    seen: Vec<TensorData>,
}

impl Distil {
    fn teacher(&self) -> &Student {
        self.teacher.as_ref().unwrap().network()
    }
}

impl Task for Distil {
    type Network = Student;
    type Target = ();

    const BEST: BestBy = BestBy {
        metric: "entropy",
        higher: false,
    };

    fn target(_: &Sample) {}

    fn loss(
        &mut self,
        student: &Student,
        batch: DeviceBatch<()>,
        at: Position,
        phase: Phase,
    ) -> Tensor<1> {
        assert_eq!(batch.views.len(), 2);
        assert_eq!(batch.targets.len(), batch.indices.len());
        let outputs = |view: &Tensor<4>| self.teacher().forward(view.clone().inner(), Phase::Eval);
        let teacher = [outputs(&batch.views[0]), outputs(&batch.views[1])];
        let centre = self.centre.clone().unsqueeze::<2>();
        let mut loss = Tensor::zeros([1], &batch.views[0].device());
        for (number, output) in teacher.iter().enumerate() {
            let targets = softmax((output.clone() - centre.clone()) / 0.5, 1).autodiff();
            let other = batch.views[1 - number].clone();
            let logits = student.forward(other, phase.child(number as u64));
            loss = loss + cross_entropy(logits, targets);
        }
        let [first, second] = teacher;
        let mean = Tensor::cat(vec![first, second], 0)
            .mean_dim(0)
            .squeeze_dim(0);
        self.centre = self.centre.clone() * 0.9 + mean * 0.1;
        if self.fails_at == Some(at.step) {
            let views = batch.views.iter().map(|view| view.to_data());
            self.seen.extend(views);
            loss = loss * f64::NAN;
        }
        loss
    }

    fn before_clip(&self, gradients: &mut Gradients, student: &Student, at: Position) {
        if at.epoch == 0 {
            gradients.retain(|id| id != student.last_layer.id);
        }
    }

    fn after_update(&mut self, student: &Student, at: Position) {
        let momentum = 0.5 + 0.5 * (at.step as f64 / 9.0);
        let teacher = self.teacher.take();
        self.teacher = teacher.map(|teacher| teacher.update(student, momentum));
    }

    fn state(&self) -> Result<Vec<(&'static str, StateDict)>, TrainError> {
        let centre = [("centre".to_owned(), self.centre.to_data())];
        Ok(vec![
            ("teacher", self.teacher().state_dict()?),
            ("centre", centre.into_iter().collect()),
        ])
    }

    fn load_state(
        &mut self,
        read: &dyn Fn(&str) -> Result<StateDict, TrainError>,
    ) -> Result<(), TrainError> {
        let state = read("teacher")?;
        let teacher = self.teacher.take().unwrap();
        let loaded = teacher.restore(|teacher| teacher.load_state_dict(&state).map(|(t, _)| t))?;
        self.teacher = Some(loaded);
        let centre = read("centre")?.get("centre").unwrap().clone();
        self.centre = Tensor::from_data(centre, &self.centre.device());
        Ok(())
    }

    /// The mean entropy of what the teacher says of both splits.
    fn evaluate(
        &self,
        student: &Student,
        data: &mut EvalData<'_>,
        device: &Device,
    ) -> Result<Measured, TrainError> {
        let mut entropy = 0.0;
        let mut images = 0;
        let train: Vec<_> = data.train()?.collect::<Result<_, _>>()?;
        let val: Vec<_> = data.val()?.collect::<Result<_, _>>()?;
        for batch in train.into_iter().chain(val) {
            images += batch.len();
            let batch = batch.upload(&device.clone().inner());
            for view in batch.views {
                assert_eq!(student.last_layer.val().dims(), [FEATURES, OUTPUTS]);
                let logits = self.teacher().forward(view, Phase::Eval);
                let p = softmax(logits.clone(), 1) * log_softmax(logits, 1);
                entropy -= f64::from(p.sum().into_scalar::<f32>());
            }
        }
        Ok(Measured {
            metrics: Metrics::from([("entropy", entropy / images as f64)]),
            images,
        })
    }
}

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
    let config = AdamWConfig {
        betas: plan.optim.betas.into(),
        eps: plan.optim.eps,
        weight_decay: plan.optim.weight_decay,
    };
    TrainState {
        task: Distil {
            teacher: Some(Ema::new(&network)),
            centre: Tensor::zeros([OUTPUTS], &device.clone().inner()),
            fails_at: None,
            seen: Vec::new(),
        },
        optimizer: AdamW::new(config, &network),
        ema: None,
        network,
    }
}

/// Two views of each image: one as the plan has it, and one with a random crop.
fn splits(plan: &Plan) -> Splits {
    let transform = |preset, hflip| {
        let plan = AugmentPlan {
            preset,
            size: (16, 16),
            mean: [0.5; 3],
            std: [0.25; 3],
            interpolation: Interpolation::Bicubic,
            scale: (0.4, 1.0),
            ratio: (0.75, 4.0 / 3.0),
            hflip,
            padding: 0,
        };
        Arc::new(Transform::train(plan).unwrap())
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
    let run = RunDir::create(&plan.run.dir, true).unwrap();
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
    ["model", "optimizer", "teacher", "centre"]
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

    // The teacher lags behind, and the centre moves.
    let name = "backbone.head.weight";
    assert_ne!(
        floats(3 * EPOCH, "teacher", name),
        floats(3 * EPOCH, "model", name)
    );
    assert_ne!(
        floats(EPOCH, "centre", "centre"),
        floats(3 * EPOCH, "centre", "centre")
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
    let plan = plan(&workspace, "run", &[]);
    train(&plan, false, None, None).end.unwrap();
    let error = workspace.error(&["eval", "--run", "run", "--checkpoint", "last"]);
    assert!(error.contains("is missing"), "{error}");
    let checkpoint = workspace.last_checkpoint("run");
    fs_err::remove_file(checkpoint.join("centre.safetensors")).unwrap();
    let run = RunDir::create(&plan.run.dir, true).unwrap();
    let splits = splits(&plan);
    let device = Device::flex().autodiff();
    let checkpoints = Checkpointer::new(&run, splits.state(), 1);
    let which = Which::Path(&checkpoint);
    let error = checkpoints
        .restore(which, fresh(&plan, &device), || Ok(()))
        .err()
        .unwrap();
    assert!(
        error
            .to_string()
            .contains("`centre.safetensors` is missing")
    );
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
    assert_eq!(images.len(), names.len());
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
