#![expect(clippy::unwrap_used, reason = "tests")]
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

/// Ten steps of `torch.optim.AdamW` with decay on one of three tensors.
#[test]
fn ten_steps_match_pytorch() {
    let bytes = include_bytes!("../../../tests/golden/adamw.safetensors");
    let file = SafeTensors::deserialize(bytes).unwrap();
    let device = Device::flex();
    for (name, decay) in [("matrix", true), ("bias", false), ("cube", false)] {
        let id = ParamId::new();
        let mut optimizer = AdamW {
            config: AdamWConfig {
                betas: (0.9, 0.999),
                eps: 1e-8,
                weight_decay: 0.05,
            },
            parameters: Vec::new(),
            decayed: decay.then_some(id).into_iter().collect(),
            moments: HashMap::new(),
            updates: 0,
        };
        let params = golden(&file, &format!("{name}.params"));
        let grads = golden(&file, &format!("{name}.grads"));
        let size = grads.len() / 10;
        let tensor = |data: &[f32]| Tensor::<1>::from_data(data, &device);
        let mut weight = tensor(&params[..size]);
        for step in 0..10 {
            let gradient = tensor(&grads[step * size..][..size]);
            weight = optimizer.update(id, weight, (gradient, 1.0), 0.01);
            let actual: Vec<f32> = weight.to_data().try_to_vec().unwrap();
            for (a, e) in actual.iter().zip(&params[(step + 1) * size..][..size]) {
                assert!((a - e).abs() < 1e-6, "{name}, step {step}: {a} is not {e}");
            }
        }
    }
}

#[test]
fn the_state_of_another_model_is_refused() {
    let overrides = ModelOverrides {
        img_size: Some(16),
        patch_size: Some(8),
        embed_dim: Some(4.into()),
        depth: Some(1.into()),
        num_heads: Some(1.into()),
        num_classes: Some(2),
        ..ModelOverrides::default()
    };
    let config = ModelConfig::by_name("deit_tiny_patch16_224").unwrap();
    let config = config.with(&overrides).unwrap();
    let model = config.init(&Device::flex(), Key::new(1)).unwrap();
    let mut state = BTreeMap::new();
    for Parameter { name, shape, .. } in model.parameters() {
        let zeros = || TensorData::zeros::<f32, _>([shape.iter().product::<usize>()]);
        state.insert(format!("exp_avg.{name}"), zeros());
        state.insert(format!("exp_avg_sq.{name}"), zeros());
    }
    let load = |state: &BTreeMap<String, TensorData>| {
        let config = AdamWConfig {
            betas: (0.9, 0.999),
            eps: 1e-8,
            weight_decay: 0.05,
        };
        AdamW::new(config, &model).load_state(state.clone(), 1, &model)
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

/// Two parameters, one of which is left out at first.
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

    /// Gradients of the given values; `late` only where it has some.
    fn gradients(&self, early: [f32; 2], late: Option<[f32; 2]>) -> Gradients {
        let device = Device::flex().autodiff();
        let slope = |values: [f32; 2]| Tensor::<1>::from_floats(values, &device);
        let loss = self.early.val() * slope(early);
        // What the task leaves out has a gradient at first.
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

const CONFIG: AdamWConfig = AdamWConfig {
    betas: (0.9, 0.999),
    eps: 1e-8,
    weight_decay: 0.05,
};
const LR: f64 = 0.1;

/// One parameter as `torch.optim.AdamW` steps it: what it is left out of does not count.
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
        self.weight *= 1.0 - LR * CONFIG.weight_decay;
        self.exp_avg = 0.9 * self.exp_avg + 0.1 * gradient;
        self.exp_avg_sq = 0.999 * self.exp_avg_sq + 0.001 * gradient * gradient;
        let first = self.exp_avg / (1.0 - 0.9f64.powi(self.step));
        let second = self.exp_avg_sq / (1.0 - 0.999f64.powi(self.step));
        self.weight -= LR * first / (second.sqrt() + CONFIG.eps);
    }
}

/// A parameter that joins late makes its first step with the bias correction of a first step, also if the state was
/// saved and loaded before.
#[test]
fn updates_are_counted_per_parameter() {
    let gradient = |step: usize| [0.3 + step as f32, -0.25];
    for reload_at in [1, 2, 3, 4] {
        let mut network = Two::new();
        let mut optimizer = AdamW::new(CONFIG, &network);
        let mut early = [1.0, -2.0].map(Naive::new);
        let mut late = [0.5, 3.0].map(Naive::new);
        for step in 0..5 {
            let joined = (step >= 2).then(|| gradient(step));
            let gradients = network.gradients(gradient(step), joined);
            network = optimizer.step(network, gradients, LR);
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
                // By hand: a first step has the length of the rate, whatever the gradient is.
                let expected = 0.5 * (1.0 - 0.1 * 0.05) - 0.1;
                assert!((network.values()[1][0] - expected).abs() < 1e-5);
            }
            if step == reload_at {
                let (state, updates) = optimizer.state();
                optimizer = AdamW::new(CONFIG, &network);
                optimizer.load_state(state, updates, &network).unwrap();
            }
        }
    }
}

/// The count is written where it differs; what older versions wrote has none.
#[test]
fn counts_are_saved_where_they_differ() {
    let mut network = Two::new();
    let mut optimizer = AdamW::new(CONFIG, &network);
    let names = |optimizer: &AdamW| optimizer.state().0.into_keys().collect::<Vec<_>>();
    let gradients = network.gradients([1.0, 1.0], None);
    network = optimizer.step(network, gradients, LR);
    let early = ["exp_avg.early", "exp_avg_sq.early"];
    assert_eq!(names(&optimizer), [&early[..], &["step.late"]].concat());

    let gradients = network.gradients([1.0, 1.0], Some([1.0, 1.0]));
    network = optimizer.step(network, gradients, LR);
    let (state, updates) = optimizer.state();
    assert_eq!((updates, optimizer.moments[&network.late.id].step), (2, 1));
    let mut loaded = AdamW::new(CONFIG, &network);
    loaded.load_state(state.clone(), 2, &network).unwrap();
    assert_eq!(loaded.moments[&network.late.id].step, 1);
    assert_eq!(loaded.moments[&network.early.id].step, 2);

    let mut old = state.clone();
    old.remove("step.late").unwrap();
    loaded.load_state(old, 2, &network).unwrap();
    assert_eq!(loaded.moments[&network.late.id].step, 2);

    let mut broken = state;
    broken.insert("step.late".into(), TensorData::new(vec![-1i64], [1]));
    let error = loaded.load_state(broken, 2, &network).unwrap_err();
    assert!(error.to_string().contains("`step.late`"), "{error}");
}
