#![expect(clippy::unwrap_used, reason = "tests")]
use std::collections::{BTreeMap, BTreeSet};

use burn::tensor::{Device, TensorData};
use kvt_models::weights::{StateDict, WeightsError};
use kvt_models::{ModelConfig, ModelOverrides};
use kvt_ops::Key;
use safetensors::SafeTensors;

use super::*;

/// A tensor of the golden file, flat.
fn golden(file: &SafeTensors<'_>, name: &str) -> Vec<f32> {
    let bytes = file.tensor(name).unwrap().data();
    bytes
        .chunks_exact(4)
        .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
        .collect()
}

fn numbers(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| f64::from(value)).collect()
}

/// Ten steps of `torch.optim.AdamW`, with decay for one of three tensors.
#[test]
fn ten_steps_of_adamw_match_pytorch() {
    let bytes = include_bytes!("../../../tests/golden/adamw.safetensors");
    let file = SafeTensors::deserialize(bytes).unwrap();
    let device = Device::flex();
    let config = OptimConfig {
        betas: [0.9, 0.999],
        eps: 1e-8,
        ..OptimConfig::default()
    };
    for (name, weight_decay) in [("matrix", 0.05), ("bias", 0.0), ("cube", 0.0)] {
        let params = golden(&file, &format!("{name}.params"));
        let grads = golden(&file, &format!("{name}.grads"));
        let size = grads.len() / 10;
        let tensor = |data: &[f32]| Tensor::<1>::from_data(data, &device);
        let mut weight = tensor(&params[..size]);
        let mut moments = [weight.zeros_like(), weight.zeros_like()];
        for step in 0..10 {
            let number = UpdateNumber {
                lr: 0.01,
                weight_decay,
                step: step as u32 + 1,
                shape: vec![size],
            };
            let input = AdamWInput {
                weight,
                grad: tensor(&grads[step * size..][..size]),
                moments,
                step: adamw::step(&config, &number, 1.0),
            };
            let updated = kvt_ops::adamw(vec![input], None);
            (weight, moments) = updated.into_iter().next().unwrap();
            let actual: Vec<f32> = weight.to_data().try_to_vec().unwrap();
            for (a, e) in actual.iter().zip(&params[(step + 1) * size..][..size]) {
                assert!((a - e).abs() < 1e-6, "{name}, step {step}: {a} is not {e}");
            }
        }
    }
}

/// The parameters of `scripts/reference/optim.py`, in three layers.
#[derive(Module, Debug)]
struct Several {
    tall: Param<Tensor<2>>,
    wide: Param<Tensor<2>>,
    table: Param<Tensor<2>>,
    bias: Param<Tensor<1>>,
    cube: Param<Tensor<3>>,
    head: Param<Tensor<2>>,
}

const SEVERAL: [(&str, &[usize]); 6] = [
    ("tall", &[6, 4]),
    ("wide", &[3, 5]),
    ("table", &[2, 3]),
    ("bias", &[4]),
    ("cube", &[2, 3, 2]),
    ("head", &[3, 4]),
];

impl Several {
    /// The initial state of a case.
    fn new(file: &SafeTensors<'_>, case: &str, device: &Device) -> Self {
        let device = device.clone().autodiff();
        let data = |name: &str| {
            let (_, shape) = SEVERAL.iter().find(|(known, _)| *known == name).unwrap();
            let size = shape.iter().product::<usize>();
            let values = golden(file, &format!("{case}.{name}"));
            TensorData::new(values[..size].to_vec(), shape.to_vec())
        };
        let matrix = |name| Param::from_tensor(Tensor::<2>::from_data(data(name), &device));
        Self {
            tall: matrix("tall"),
            wide: matrix("wide"),
            table: matrix("table"),
            bias: Param::from_tensor(Tensor::from_data(data("bias"), &device)),
            cube: Param::from_tensor(Tensor::from_data(data("cube"), &device)),
            head: matrix("head"),
        }
    }

    fn values(&self) -> [(&'static str, Vec<f32>); 6] {
        let values = |data: TensorData| data.try_to_vec::<f32>().unwrap();
        [
            ("tall", values(self.tall.val().to_data())),
            ("wide", values(self.wide.val().to_data())),
            ("table", values(self.table.val().to_data())),
            ("bias", values(self.bias.val().to_data())),
            ("cube", values(self.cube.val().to_data())),
            ("head", values(self.head.val().to_data())),
        ]
    }

    /// The gradients of an update, as the slopes of a linear loss.
    fn gradients(&self, file: &SafeTensors<'_>, step: usize) -> Gradients {
        let device = self.bias.val().device();
        let slope = |name: &str, size: usize| {
            let values = golden(file, &format!("grads.{name}"));
            Tensor::<1>::from_data(&values[step * size..][..size], &device)
        };
        let loss = flat(self.tall.val()) * slope("tall", 24);
        let mut loss = loss.sum();
        for (name, weight) in [
            ("wide", flat(self.wide.val())),
            ("table", flat(self.table.val())),
            ("bias", self.bias.val()),
            ("cube", flat(self.cube.val())),
            ("head", flat(self.head.val())),
        ] {
            let size = weight.dims()[0];
            loss = loss + (weight * slope(name, size)).sum();
        }
        Gradients::take(loss.backward(), self)
    }
}

impl Network for Several {
    fn parameters(&self) -> Vec<Parameter> {
        let ids = [
            self.tall.id,
            self.wide.id,
            self.table.id,
            self.bias.id,
            self.cube.id,
            self.head.id,
        ];
        let named = SEVERAL
            .iter()
            .zip(ids)
            .map(|((name, shape), id)| Parameter {
                name: (*name).to_owned(),
                id,
                shape: shape.to_vec(),
            });
        named.collect()
    }

    fn decays(&self, parameter: &Parameter) -> bool {
        !["table", "bias"].contains(&parameter.name.as_str())
    }

    fn layer(&self, parameter: &Parameter) -> usize {
        match parameter.name.as_str() {
            "tall" | "wide" => 1,
            "head" => 2,
            _ => 0,
        }
    }

    fn layers(&self) -> usize {
        3
    }

    fn state_dict(&self) -> Result<StateDict, WeightsError> {
        unreachable!("nothing is saved here")
    }

    fn load_state_dict(self, _: &StateDict) -> Result<(Self, Vec<String>), WeightsError> {
        unreachable!("nothing is loaded here")
    }
}

const LRS: [f64; 8] = [0.001, 0.004, 0.01, 0.01, 0.008, 0.005, 0.002, 0.001];
const WEIGHT_DECAYS: [f64; 8] = [0.05, 0.05, 0.1, 0.2, 0.2, 0.3, 0.4, 0.4];

/// Eight updates of each optimizer, with different rates and weight decays in each, compared with PyTorch's and timm's
/// in f64. The state is saved and loaded in between.
#[test]
fn each_optimizer_matches_pytorch() {
    let bytes = include_bytes!("../../../tests/golden/optim.safetensors");
    let file = SafeTensors::deserialize(bytes).unwrap();
    let sgd = |momentum, nesterov| OptimConfig {
        name: OptimName::Sgd,
        momentum,
        nesterov,
        ..OptimConfig::default()
    };
    let adaptive = |name| OptimConfig {
        name,
        betas: [0.9, 0.99],
        eps: 1e-6,
        ..OptimConfig::default()
    };
    let muon = |momentum, nesterov| OptimConfig {
        momentum,
        nesterov,
        ..adaptive(OptimName::Muon)
    };
    let momentum = &["momentum_buffer"][..];
    let moments = &["exp_avg", "exp_avg_sq"][..];
    let both = &["exp_avg", "exp_avg_sq", "momentum_buffer"][..];
    let layers = OptimConfig {
        layer_decay: 0.5,
        ..sgd(0.9, true)
    };
    for (case, config, kept) in [
        ("sgd", sgd(0.9, false), momentum),
        ("sgd_nesterov", sgd(0.9, true), momentum),
        ("sgd_plain", sgd(0.0, true), &[]),
        ("layers", layers, momentum),
        ("lamb", adaptive(OptimName::Lamb), moments),
        ("lion", adaptive(OptimName::Lion), &["exp_avg"]),
        ("muon", muon(0.95, true), both),
        ("muon_heavy", muon(0.8, false), both),
    ] {
        let mut network = Several::new(&file, case, &Device::flex());
        let mut optimizer = Optimizer::new(&config, &network);
        for step in 0..8 {
            let rates = Rates {
                lr: LRS[step],
                weight_decay: WEIGHT_DECAYS[step],
            };
            let gradients = network.gradients(&file, step);
            network = optimizer.step(network, gradients, rates);
            for (name, found) in network.values() {
                let size = found.len();
                let expected = golden(&file, &format!("{case}.{name}"));
                let expected = numbers(&expected[(step + 1) * size..][..size]);
                for (found, expected) in numbers(&found).iter().zip(&expected) {
                    let error = (found - expected).abs() / expected.abs().max(1.0);
                    assert!(
                        error < 1e-6,
                        "{case}, {name}, step {step}: {found} is not {expected}"
                    );
                }
            }
            if step == 3 {
                let (state, updates) = optimizer.state();
                let names: BTreeSet<&str> = state
                    .keys()
                    .map(|name| name.split('.').next().unwrap())
                    .collect();
                assert_eq!(names, kept.iter().copied().collect(), "{case}");
                optimizer = Optimizer::new(&config, &network);
                optimizer.load_state(state, updates, &network).unwrap();
            }
        }
    }
}

/// Two updates of an optimizer on a device, compared with those of a case of the file.
fn compare_on(device: &str, on: &Device, case: &str, name: OptimName) {
    let bytes = include_bytes!("../../../tests/golden/optim.safetensors");
    let file = SafeTensors::deserialize(bytes).unwrap();
    let config = OptimConfig {
        name,
        betas: [0.9, 0.99],
        eps: 1e-6,
        momentum: name.defaults().2,
        ..OptimConfig::default()
    };
    let mut network = Several::new(&file, case, on);
    let mut optimizer = Optimizer::new(&config, &network);
    for step in 0..2 {
        let rates = Rates {
            lr: LRS[step],
            weight_decay: WEIGHT_DECAYS[step],
        };
        let gradients = network.gradients(&file, step);
        network = optimizer.step(network, gradients, rates);
    }
    for (name, found) in network.values() {
        let size = found.len();
        let expected = golden(&file, &format!("{case}.{name}"));
        let what = format!("{device}, {case}, {name}");
        let expected = &expected[2 * size..][..size];
        kvt_testing::devices::assert_close(&what, &found, expected, 1e-5);
    }
}

#[test]
fn optimizers_are_the_same_on_a_gpu() {
    for (device, on) in kvt_testing::devices::devices() {
        for (case, name) in [
            ("sgd_nesterov", OptimName::Sgd),
            ("lamb", OptimName::Lamb),
            ("lion", OptimName::Lion),
        ] {
            compare_on(device, &on, case, name);
        }
    }
}

/// Runs only if `KVT_GPU_CASES` requests all cases, or `muon`: a software driver tunes its matrix products for minutes.
#[test]
fn muon_is_the_same_on_a_gpu() {
    if !kvt_testing::asks_for("muon") {
        return compare_on("flex", &Device::flex(), "muon", OptimName::Muon);
    }
    for (device, on) in kvt_testing::devices::devices() {
        compare_on(device, &on, "muon", OptimName::Muon);
    }
}

/// A scale of the gradients, which clipping by the global norm leaves to the optimizer, is a factor of each gradient.
#[test]
fn every_optimizer_scales_the_gradients() {
    let bytes = include_bytes!("../../../tests/golden/optim.safetensors");
    let file = SafeTensors::deserialize(bytes).unwrap();
    let rates = Rates {
        lr: 0.01,
        weight_decay: 0.1,
    };
    for name in [
        OptimName::Adamw,
        OptimName::Sgd,
        OptimName::Lamb,
        OptimName::Lion,
        OptimName::Muon,
    ] {
        let config = OptimConfig {
            name,
            // Adam is almost invariant to the scale of the gradients.
            eps: 0.1,
            ..OptimConfig::default()
        };
        let stepped = |change: &dyn Fn(Gradients) -> Gradients| {
            let network = Several::new(&file, "sgd", &Device::flex());
            let mut optimizer = Optimizer::new(&config, &network);
            let mut network = network;
            for step in [7, 6] {
                let gradients = change(network.gradients(&file, step));
                network = optimizer.step(network, gradients, rates);
            }
            network.values()
        };
        let half = stepped(&|gradients| gradients.clip_norm(2.0 - 1e-6, 1.0));
        let mapped = stepped(&|mut gradients| {
            gradients.map_each(|_, gradient| gradient * 0.5);
            gradients
        });
        let whole = stepped(&|gradients| gradients);
        for ((parameter, half), (_, mapped)) in half.iter().zip(&mapped) {
            for (half, mapped) in half.iter().zip(mapped) {
                assert!((half - mapped).abs() < 1e-6, "{name:?}, {parameter}");
            }
        }
        // The signs of Lion's updates do not depend on the scale.
        assert_eq!(half != whole, name != OptimName::Lion, "{name:?}");
    }
}

#[test]
fn the_state_of_another_model_is_refused() {
    let overrides = ModelOverrides {
        img_size: Some(16.into()),
        patch_size: Some(8),
        embed_dim: Some(4.into()),
        depth: Some(1.into()),
        num_heads: Some(1.into()),
        num_classes: Some(2),
        ..ModelOverrides::default()
    };
    let config = ModelConfig::by_name("deit_tiny_patch16_224")
        .unwrap()
        .with(&overrides)
        .unwrap();
    let model = config.init(&Device::flex(), Key::new(1)).unwrap();
    let mut state = BTreeMap::new();
    for Parameter { name, shape, .. } in model.parameters() {
        let zeros = || TensorData::zeros::<f32, _>([shape.iter().product::<usize>()]);
        state.insert(format!("exp_avg.{name}"), zeros());
        state.insert(format!("exp_avg_sq.{name}"), zeros());
    }
    let load = |state: &BTreeMap<String, TensorData>| {
        let mut optimizer = Optimizer::new(&OptimConfig::default(), &model);
        optimizer.load_state(state.clone(), 1, &model)
    };
    load(&state).unwrap();
    let name = "exp_avg_sq.norm.bias";
    state.insert(name.to_owned(), TensorData::zeros::<f32, _>([5]));
    let error = load(&state).unwrap_err().to_string();
    assert!(
        error.contains("no `exp_avg_sq.norm.bias` of 4 values"),
        "{error}"
    );
    state.remove(name);
    let error = load(&state).unwrap_err().to_string();
    assert!(
        error.contains("no `exp_avg_sq.norm.bias` of 4 values"),
        "{error}"
    );
}

/// Two parameters, one of which is excluded at first.
#[derive(Module, Debug)]
struct Two {
    early: Param<Tensor<1>>,
    late: Param<Tensor<1>>,
}

impl Two {
    fn new() -> Self {
        let device = Device::flex().autodiff();
        let param = |values: [f32; 2]| Param::from_tensor(Tensor::from_floats(values, &device));
        Self {
            early: param([1.0, -2.0]),
            late: param([0.5, 3.0]),
        }
    }

    fn values(&self) -> [Vec<f32>; 2] {
        [&self.early, &self.late].map(|param| param.val().to_data().try_to_vec().unwrap())
    }

    /// Gradients with the given values; `late` only if it has values.
    fn gradients(&self, early: [f32; 2], late: Option<[f32; 2]>) -> Gradients {
        let device = Device::flex().autodiff();
        let slope = |values: [f32; 2]| Tensor::<1>::from_floats(values, &device);
        let loss = self.early.val() * slope(early);
        // A parameter that the task excludes has a gradient at first.
        let loss = loss + self.late.val() * slope(late.unwrap_or([7.0, 7.0]));
        let mut gradients = Gradients::take(loss.sum().backward(), self);
        if late.is_none() {
            gradients.retain(|id| id != self.late.id);
        }
        gradients
    }
}

impl Network for Two {
    fn parameters(&self) -> Vec<Parameter> {
        let named = [("early", &self.early), ("late", &self.late)];
        named
            .map(|(name, param)| Parameter {
                name: name.to_owned(),
                id: param.id,
                shape: vec![2],
            })
            .to_vec()
    }

    fn decays(&self, _: &Parameter) -> bool {
        true
    }

    fn state_dict(&self) -> Result<StateDict, WeightsError> {
        unreachable!("nothing is saved here")
    }

    fn load_state_dict(self, _: &StateDict) -> Result<(Self, Vec<String>), WeightsError> {
        unreachable!("nothing is loaded here")
    }
}

const RATES: Rates = Rates {
    lr: 0.1,
    weight_decay: 0.05,
};

fn adamw(network: &Two) -> Optimizer {
    Optimizer::new(&OptimConfig::default(), network)
}

/// One parameter as updated by `torch.optim.AdamW`; updates that it is excluded from do not count.
struct Naive {
    weight: f64,
    exp_avg: f64,
    exp_avg_sq: f64,
    step: i32,
}

impl Naive {
    fn new(weight: f64) -> Self {
        Self {
            weight,
            exp_avg: 0.0,
            exp_avg_sq: 0.0,
            step: 0,
        }
    }

    fn step(&mut self, gradient: f64) {
        self.step += 1;
        self.weight *= 1.0 - RATES.lr * RATES.weight_decay;
        self.exp_avg = 0.9 * self.exp_avg + 0.1 * gradient;
        self.exp_avg_sq = 0.999 * self.exp_avg_sq + 0.001 * gradient * gradient;
        let first = self.exp_avg / (1.0 - 0.9f64.powi(self.step));
        let second = self.exp_avg_sq / (1.0 - 0.999f64.powi(self.step));
        self.weight -= RATES.lr * first / (second.sqrt() + 1e-8);
    }
}

/// A parameter that joins late makes its first step with the bias correction of a first step, even if the state was
/// saved and loaded before.
#[test]
fn updates_are_counted_per_parameter() {
    let gradient = |step: usize| [0.3 + step as f32, -0.25];
    for reload_at in [1, 2, 3, 4] {
        let mut network = Two::new();
        let mut optimizer = adamw(&network);
        let mut early = [1.0, -2.0].map(Naive::new);
        let mut late = [0.5, 3.0].map(Naive::new);
        for step in 0..5 {
            let joined = (step >= 2).then(|| gradient(step));
            let gradients = network.gradients(gradient(step), joined);
            network = optimizer.step(network, gradients, RATES);
            for (naive, gradient) in early.iter_mut().zip(gradient(step)) {
                naive.step(f64::from(gradient));
            }
            for (naive, gradient) in late.iter_mut().zip(joined.into_iter().flatten()) {
                naive.step(f64::from(gradient));
            }
            for (found, expected) in network.values().iter().zip([&early, &late]) {
                for (found, expected) in found.iter().zip(expected) {
                    let error = (f64::from(*found) - expected.weight).abs();
                    assert!(error < 1e-5, "step {step}: {found}");
                }
            }
            if step == 1 {
                assert_eq!(network.values()[1], [0.5, 3.0], "left out, not decayed");
            }
            if step == 2 {
                // By hand: a first step has the length of the learning rate for any gradient.
                let expected = 0.5 * (1.0 - 0.1 * 0.05) - 0.1;
                assert!((network.values()[1][0] - expected).abs() < 1e-5);
            }
            if step == reload_at {
                let (state, updates) = optimizer.state();
                optimizer = adamw(&network);
                optimizer.load_state(state, updates, &network).unwrap();
            }
        }
    }
}

/// The count is saved if it differs; files of older versions do not have it.
#[test]
fn counts_are_saved_where_they_differ() {
    let mut network = Two::new();
    let mut optimizer = adamw(&network);
    let names = |optimizer: &Optimizer| optimizer.state().0.into_keys().collect::<Vec<_>>();
    let gradients = network.gradients([1.0, 1.0], None);
    network = optimizer.step(network, gradients, RATES);
    let early = ["exp_avg.early", "exp_avg_sq.early"];
    assert_eq!(names(&optimizer), [&early[..], &["step.late"]].concat());

    let gradients = network.gradients([1.0, 1.0], Some([1.0, 1.0]));
    network = optimizer.step(network, gradients, RATES);
    let (state, updates) = optimizer.state();
    assert_eq!((updates, optimizer.states[&network.late.id].step), (2, 1));
    let mut loaded = adamw(&network);
    loaded.load_state(state.clone(), 2, &network).unwrap();
    assert_eq!(loaded.states[&network.late.id].step, 1);
    assert_eq!(loaded.states[&network.early.id].step, 2);

    // The previous state of a parameter is discarded when a state is loaded.
    let mut early = state.clone();
    early.retain(|name, _| name.ends_with("early"));
    early.insert("step.late".into(), TensorData::new(vec![0i64], [1]));
    loaded.load_state(early.clone(), 2, &network).unwrap();
    assert_eq!(loaded.state(), (early, 2));

    let mut old = state.clone();
    old.remove("step.late").unwrap();
    loaded.load_state(old, 2, &network).unwrap();
    assert_eq!(loaded.states[&network.late.id].step, 2);

    let mut broken = state;
    broken.insert("step.late".into(), TensorData::new(vec![-1i64], [1]));
    let error = loaded.load_state(broken, 2, &network).unwrap_err();
    assert!(error.to_string().contains("`step.late`"), "{error}");
}
