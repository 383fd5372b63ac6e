//! Half precision from configuration to checkpoint: refusals, messages, and the loss scale of f16.

use std::collections::BTreeMap;
use std::sync::Arc;

use burn::module::Module;
use burn::tensor::{DType, Device, Tensor, TensorData};
use kvt_models::weights::{self, StateDict};
use kvt_models::{Model, ModelConfig, ModelOverrides, Precision};
use kvt_ops::{Key, Phase};
use kvt_train::data::{DataError, DeviceBatch, Prepare};
use kvt_train::engine::{TrainError, TrainState, Update, UpdateError, UpdateSettings};
use kvt_train::recipe::{Clip, Ema, Gradients, LossScale, OptimConfig, Optimizer, Position, Rates};
use kvt_train::run::{Event, Metric, Topic};
use kvt_train::splits::Splits;
use kvt_train::task::{EvalData, Measured, Setup, Task};

use crate::support::{Workspace, floats, read_weights, steps};

/// The weighted sum of the logits, times a factor; counts the updates that followed.
struct Sum {
    factor: f64,
    started: usize,
    undone: usize,
    followed: usize,
}

impl Task for Sum {
    type Network = Model;
    type Target = u32;

    const METRICS: &'static [Metric] = &[Metric::LOSS];
    const BEST: Metric = Metric::LOSS;

    fn model(_: &kvt_train::config::Plan, _: &Splits) -> Result<ModelConfig, TrainError> {
        unreachable!("the test makes the state")
    }

    fn start(_: &mut Setup<'_>) -> Result<(Self, Model), TrainError> {
        unreachable!("the test makes the state")
    }

    fn prepare(
        _: &kvt_train::config::Plan,
        _: &Splits,
    ) -> Result<Arc<dyn Prepare<u32>>, DataError> {
        unreachable!("the test makes the batches")
    }

    fn loss(
        &mut self,
        model: &Model,
        mut batch: DeviceBatch,
        _: Position,
        phase: Phase,
    ) -> Result<Tensor<1>, TrainError> {
        let logits = model.forward(batch.views.swap_remove(0), phase);
        // Batch norms remove the part of a gradient that all images share.
        let weights = [[1.0f32, 2.0, 3.0], [-3.0, 1.0, -2.0]];
        let weights = Tensor::<2>::from_data(weights, &logits.device());
        Ok((logits * weights).sum() * self.factor)
    }

    fn begin(&mut self) {
        self.started += 1;
    }

    fn undo(&mut self) {
        self.undone += 1;
    }

    fn before_clip(&self, gradients: &mut Gradients, _: &Model, _: Position) {
        // The task sees unscaled gradients.
        let norm = gradients.norm().unwrap().into_scalar::<f32>();
        assert!(norm.is_nan() || norm.is_infinite() || norm < 1e4, "{norm}");
    }

    fn after_update(&mut self, _: &Model, _: Position) {
        self.followed += 1;
    }

    fn evaluate(
        &self,
        _: &Model,
        _: &mut EvalData<'_>,
        _: &Device,
    ) -> Result<Measured, TrainError> {
        unreachable!("nothing is evaluated")
    }
}

/// A small Visformer, whose running statistics change in the forward pass, with the given loss scale.
fn state(scale: f64, factor: f64) -> TrainState<Sum> {
    let overrides = ModelOverrides {
        strides: Some(vec![2, 2, 1, 2]),
        embed_dim: Some(8.into()),
        depth: Some(vec![1, 1, 1].into()),
        num_heads: Some(2.into()),
        img_size: Some(16.into()),
        num_classes: Some(3),
        ..ModelOverrides::default()
    };
    let config = ModelConfig::by_name("visformer_tiny")
        .unwrap()
        .with(&overrides)
        .unwrap();
    let device = Device::flex().autodiff();
    let model = config
        .init(&device, Key::new(1))
        .unwrap()
        .with_precision(Precision::F16);
    let loss_scale = format!(r#"{{"scale":{scale:?},"good_updates":3}}"#);
    TrainState {
        optimizer: Optimizer::new(&OptimConfig::default(), &model),
        ema: Some(Ema::new(&model, [])),
        network: model,
        task: Sum {
            factor,
            started: 0,
            undone: 0,
            followed: 0,
        },
        loss_scale: Some(serde_json::from_str(&loss_scale).unwrap()),
    }
}

fn batch(seed: usize) -> Result<DeviceBatch, DataError> {
    let device = Device::flex().autodiff();
    let pixels = (0..2 * 3 * 16 * 16).map(|i| (i * 29 + seed * 7) % 97);
    let pixels: Vec<f32> = pixels.map(|x| x as f32 / 48.0 - 1.0).collect();
    Ok(DeviceBatch {
        views: vec![Tensor::from_data(
            TensorData::new(pixels, [2, 3, 16, 16]),
            &device,
        )],
        targets: vec![0, 1],
        indices: vec![0, 1],
    })
}

fn update(state: &mut TrainState<Sum>) -> Result<Update, UpdateError> {
    let settings = UpdateSettings {
        seed: 1,
        rates: Rates {
            lr: 1e-3,
            weight_decay: 0.05,
        },
        clip: Clip::Norm(1.0),
        ema_decay: 0.9,
    };
    state.update([batch(1), batch(2)], Position::default(), settings)
}

/// Everything that an update changes, as bytes.
fn bytes(state: &TrainState<Sum>) -> Vec<Vec<(String, Vec<u8>)>> {
    let of = |dict: StateDict| -> Vec<(String, Vec<u8>)> {
        let tensors = dict.iter();
        tensors
            .map(|(name, data)| (name.to_owned(), data.as_bytes().to_vec()))
            .collect()
    };
    let ema = state.ema.as_ref().unwrap();
    let (moments, updates) = state.optimizer.state();
    let mut moments: Vec<(String, Vec<u8>)> = moments
        .into_iter()
        .map(|(name, data)| (name, data.as_bytes().to_vec()))
        .collect();
    moments.push(("updates".to_owned(), updates.to_le_bytes().to_vec()));
    let network = StateDict::from_model(&state.network).unwrap();
    let average = StateDict::from_model(ema.network()).unwrap();
    vec![of(network), of(average), moments]
}

/// At a scale of 2^40 every gradient overflows in f16.
#[test]
fn an_overflow_leaves_everything_as_it_was() {
    let mut state = state(2.0f64.powi(40), 1.0);
    for halved in (32..40).rev() {
        let before = bytes(&state);
        let update = update(&mut state).unwrap();
        assert!(!update.made && update.loss.is_finite(), "{update:?}");
        assert!(!update.grad_norm.is_finite());
        let scale = state.loss_scale.unwrap();
        assert_eq!(scale.factor(), 2.0f64.powi(halved));
        let after = bytes(&state);
        for (before, after) in before.iter().zip(&after) {
            for (before, after) in before.iter().zip(after) {
                assert!(before == after, "{}", before.0);
            }
        }
        assert_eq!(
            (state.task.started, state.task.undone, state.task.followed),
            (40 - halved as usize, 40 - halved as usize, 0)
        );
    }
    // At a scale that fits, an update changes everything, and it is the first one that the optimizer counts.
    let mut state = TrainState {
        loss_scale: LossScale::of(Precision::F16),
        ..state
    };
    let before = bytes(&state);
    while !update(&mut state).unwrap().made {}
    let after = bytes(&state);
    assert!((0..3).all(|part| before[part] != after[part]));
    let (_, updates) = state.optimizer.state();
    assert_eq!((updates, state.task.followed), (1, 1));
}

/// At every scale the update is the same, except for what underflows in f16.
#[test]
fn a_scale_changes_no_update() {
    let weights = |scale: f64| {
        let mut state = state(scale, 1e-3);
        let update = update(&mut state).unwrap();
        assert!(update.made, "{scale}: {update:?}");
        let network = StateDict::from_model(&state.network).unwrap();
        (update.grad_norm, floats(&network, "head.weight"))
    };
    let (norm, head) = weights(4096.0);
    for scale in [256.0, 65_536.0] {
        let (other, other_head) = weights(scale);
        assert!((other / norm - 1.0).abs() < 2e-3, "{other}, not {norm}");
        for (a, b) in head.iter().zip(&other_head) {
            assert!((a - b).abs() < 1e-5, "{scale}: {a}, not {b}");
        }
    }
}

/// No scale helps if the loss is not finite, and a scale of 1 counts as none.
#[test]
fn what_no_scale_mends_ends_the_run() {
    let mut infinite = state(65_536.0, f64::INFINITY);
    let error = update(&mut infinite).unwrap_err();
    assert!(matches!(error, UpdateError::NotFinite(_)), "{error}");
    assert_eq!(infinite.loss_scale.unwrap().factor(), 65_536.0);

    let mut steep = state(1.0, 1e30);
    let error = update(&mut steep).unwrap_err();
    let UpdateError::NotFinite(update) = error else {
        panic!("{error}");
    };
    assert!(update.loss.is_finite() && !update.grad_norm.is_finite());
}

/// An epoch has four updates, each of which is logged.
const F16: [&str; 4] = [
    "train.precision=\"f16\"",
    "init.weights=\"large.safetensors\"",
    "checkpoint.every_epochs=0",
    "log.every_steps=1",
];

/// Data, and weights with a head so large that the first f16 gradients overflow.
fn steep() -> Workspace {
    let workspace = Workspace::with_data(8, 2);
    let start = [
        "train",
        "tiny.toml",
        "--set",
        "train.max_steps=1",
        "--set",
        "run.dir=start",
    ];
    workspace.kvt(&start).assert().success();
    let file = workspace.last_checkpoint("start").join("model.safetensors");
    let mut weights = read_weights(&file);
    let head = weights.get("head.weight").unwrap().clone();
    let shape = head.shape().clone();
    let values = head.try_to_vec::<f32>().unwrap();
    let values: Vec<f32> = values.into_iter().map(|x| x * 1000.0).collect();
    weights.insert("head.weight", TensorData::new(values, shape));
    let file = workspace.path("large.safetensors");
    weights::write(&file, &weights, &BTreeMap::new()).unwrap();
    workspace
}

fn scales(events: &[Event]) -> Vec<u64> {
    let notes = events.iter().filter_map(|event| match event {
        Event::Note(note) if note.topic == Topic::Scale => Some(note.step),
        _ => None,
    });
    notes.collect()
}

/// The state in a checkpoint besides its tensors.
fn json(workspace: &Workspace) -> serde_json::Value {
    let file = workspace.last_checkpoint("run").join("state.json");
    serde_json::from_str(&fs_err::read_to_string(file).unwrap()).unwrap()
}

fn run(workspace: &Workspace, more: &[&str]) {
    let mut arguments = vec!["train", "tiny.toml", "--set", "train.epochs=4"];
    let overrides = F16.iter().chain(more);
    arguments.extend(overrides.flat_map(|text| {
        if text.starts_with("--") {
            vec![*text]
        } else {
            vec!["--set", *text]
        }
    }));
    workspace.kvt(&arguments).assert().success();
}

/// Stopped between two skipped updates, and in the middle of an epoch, it resumes bit for bit.
#[test]
fn a_resumed_run_in_f16_is_the_uninterrupted_one() {
    let whole = steep();
    run(&whole, &[]);
    let events = whole.log("run");
    let skipped = scales(&events);
    assert!(skipped.len() >= 2, "{skipped:?}");
    let made = steps(&events).len() - skipped.len();
    assert!(made >= 4, "{made}");
    assert_eq!(json(&whole)["updates"], made);
    let scale = json(&whole)["loss_scale"]["scale"].as_f64().unwrap();
    assert_eq!(scale, 65_536.0 / 2.0f64.powi(skipped.len() as i32));

    let last = skipped[skipped.len() - 1];
    for stop in [skipped[0], last + 1] {
        let resumed = steep();
        run(&resumed, &[&format!("train.max_steps={stop}")]);
        run(&resumed, &["--resume"]);
        let numbers = |events: &[Event]| -> Vec<(u64, u64, u64)> {
            let steps = steps(events);
            let number = |step: &&kvt_train::run::StepRecord| {
                (step.step, step.loss.to_bits(), step.grad_norm.to_bits())
            };
            steps.iter().map(number).collect()
        };
        let found = resumed.log("run");
        assert_eq!(numbers(&found), numbers(&events));
        assert_eq!(scales(&found), skipped);
        for file in ["model.safetensors", "optimizer.safetensors"] {
            let [a, b] = [&whole, &resumed].map(|workspace| {
                fs_err::read(workspace.last_checkpoint("run").join(file)).unwrap()
            });
            assert!(a == b, "{file}");
        }
        assert_eq!(json(&resumed)["loss_scale"], json(&whole)["loss_scale"]);
    }
}

/// A checkpoint holds f32 at every precision, evaluation uses the run's precision, and a resumed run may change it.
#[test]
fn weights_are_f32_and_evaluation_is_not() {
    let workspace = Workspace::with_data(6, 6);
    let bf16 = [
        "--set",
        "train.precision=bf16",
        "--set",
        "train.max_steps=2",
    ];
    let arguments = [&["train", "tiny.toml"][..], &bf16].concat();
    let output = workspace.kvt(&arguments).assert().success();
    let stderr = String::from_utf8(output.get_output().stderr.clone()).unwrap();
    let warning = "`train.precision` = \"bf16\" is slower than \"f32\" on this CPU";
    let is_slow = !kvt_ops::cpu_multiplies_bf16();
    assert_eq!(stderr.contains(warning), is_slow, "{stderr}");
    let log = workspace.read("run/log.jsonl");
    assert_eq!(log.contains("is slower than"), is_slow);
    assert!(json(&workspace).get("loss_scale").is_none());
    let weights = read_weights(&workspace.last_checkpoint("run").join("model.safetensors"));
    for (name, data) in weights.iter() {
        assert_eq!(data.dtype(), DType::F32, "{name}");
    }
    let eval = |more: &[&str]| {
        let arguments = ["eval", "--run", "run", "--checkpoint", "last", "--json"];
        workspace.json(&[&arguments[..], more].concat())["loss"]
            .as_f64()
            .unwrap()
    };
    let logged = workspace
        .log("run")
        .into_iter()
        .rev()
        .find_map(|event| match event {
            Event::Eval(eval) => eval.metrics.get("loss"),
            _ => None,
        });
    let of_run = eval(&[]);
    assert_eq!(Some(of_run), logged);
    let in_f32 = eval(&["--set", "train.precision=f32"]);
    assert!(
        in_f32 != of_run && (in_f32 - of_run).abs() < 1e-2,
        "{in_f32} {of_run}"
    );

    // To f16, which starts with a scale, and to f32, which has none.
    for (precision, end, has_scale) in [("f16", 4, true), ("f32", 6, false)] {
        let precision = format!("train.precision={precision}");
        let end = format!("train.max_steps={end}");
        let arguments = [
            "train",
            "tiny.toml",
            "--resume",
            "--set",
            &precision,
            "--set",
            &end,
        ];
        workspace.kvt(&arguments).assert().success();
        assert_eq!(json(&workspace).get("loss_scale").is_some(), has_scale);
    }
    let log = workspace.read("run/log.jsonl");
    assert!(log.contains("`train.precision`"), "{log}");
}

/// The average is evaluated in the same precision as the weights.
#[test]
fn an_average_has_the_precision_of_its_model() {
    let state = state(1.0, 1.0);
    assert_eq!(state.network.valid().precision(), Precision::F16);
    assert_eq!(state.ema.unwrap().network().precision(), Precision::F16);
}

#[test]
fn a_precision_is_one_of_three() {
    let workspace = Workspace::with_data(2, 1);
    let error = workspace.error(&["train", "tiny.toml", "--set", "train.precision=fp16"]);
    for part in ["`train.precision`", "\"f32\"", "\"bf16\"", "\"f16\""] {
        assert!(error.contains(part), "{error}");
    }
}
