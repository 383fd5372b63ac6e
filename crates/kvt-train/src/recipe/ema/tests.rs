#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;

use burn::tensor::Device;
use kvt_models::weights::StateDict;
use kvt_models::{Model, ModelConfig, ModelOverrides};
use kvt_ops::{Key, Phase};

use super::*;
use crate::recipe::{Gradients, LossConfig, OptimConfig, Optimizer, Rates, cross_entropy};

const SIDE: usize = 16;
const LABELS: [u32; 4] = [0, 2, 1, 0];

/// The smallest CvT: two stages with batch norms.
fn cvt(device: &Device) -> Model {
    let overrides = ModelOverrides {
        img_size: Some(SIDE.into()),
        patch_stride: Some(4),
        embed_dim: Some(vec![4, 8].into()),
        depth: Some(vec![1, 1].into()),
        num_heads: Some(vec![1, 2].into()),
        num_classes: Some(3),
        ..ModelOverrides::default()
    };
    let config = ModelConfig::by_name("cvt_13")
        .unwrap()
        .with(&overrides)
        .unwrap();
    config.init(device, Key::new(1)).unwrap()
}

/// Different images at every step.
fn images(step: usize, device: &Device) -> Tensor<4> {
    let shape = [LABELS.len(), 3, SIDE, SIDE];
    let count = shape.iter().product::<usize>() as i64;
    let image = Tensor::arange(0..count, device).float();
    (image * (0.37 + step as f64)).sin().reshape(shape) + step as f64
}

/// One training step, large enough to be visible.
fn train(model: Model, optimizer: &mut Optimizer, step: usize) -> Model {
    let device = Device::flex().autodiff();
    let phase = Phase::Train(Key::new(2));
    let logits = model.forward(images(step, &device), phase);
    let config = LossConfig {
        label_smoothing: 0.1,
        ..LossConfig::default()
    };
    let targets = config.targets(LABELS.chunks(1), None, 3, &device);
    let loss = cross_entropy(logits, targets);
    let gradients = Gradients::take(loss.backward(), &model);
    let rates = Rates {
        lr: 0.05,
        weight_decay: 0.05,
    };
    optimizer.step(model, gradients, rates)
}

fn adamw(model: &Model) -> Optimizer {
    Optimizer::new(&OptimConfig::default(), model)
}

/// Parameters and running statistics by name.
fn state(model: &Model) -> BTreeMap<String, Vec<f32>> {
    let state = StateDict::from_model(model).unwrap();
    let values = |(name, data): (&str, &burn::tensor::TensorData)| {
        (name.to_owned(), data.try_to_vec::<f32>().unwrap())
    };
    state.iter().map(values).collect()
}

fn is_statistic(name: &str) -> bool {
    name.ends_with(".running_mean") || name.ends_with(".running_var")
}

/// timm's `decay * e + (1 - decay) * m` over the state dict, element by element in double precision.
#[test]
fn it_is_the_average_of_the_whole_state() {
    const DECAY: f64 = 0.75;
    let mut model = cvt(&Device::flex().autodiff());
    let mut optimizer = adamw(&model);
    let mut ema = Ema::new(&model, []);
    let start = state(&model);
    assert_eq!(state(ema.network()), start);
    assert!(start.keys().any(|name| is_statistic(name)));

    let mut expected: BTreeMap<String, Vec<f64>> = start
        .iter()
        .map(|(name, values)| (name.clone(), values.iter().map(|&v| v.into()).collect()))
        .collect();
    for step in 0..4 {
        model = train(model, &mut optimizer, step);
        ema = ema.update(&model, DECAY);
        for (name, values) in state(&model) {
            for (e, m) in expected.get_mut(&name).unwrap().iter_mut().zip(values) {
                *e = DECAY * *e + (1.0 - DECAY) * f64::from(m);
            }
        }
    }

    let (found, trained) = (state(ema.network()), state(&model));
    assert!(found.keys().eq(expected.keys()));
    for (name, expected) in &expected {
        let scale = expected.iter().fold(0.0f64, |max, e| max.max(e.abs()));
        assert_eq!(found[name].len(), expected.len(), "{name}");
        for (&found, expected) in found[name].iter().zip(expected) {
            let error = (f64::from(found) - expected).abs();
            assert!(
                error <= 1e-6 * scale,
                "{name}: {found} instead of {expected}"
            );
        }
        if is_statistic(name) || name == "head.weight" {
            assert!(trained[name] != start[name], "{name} was not trained");
            assert!(found[name] != trained[name], "{name} is not averaged");
        }
    }
}

/// A clone of a model shares its running statistics; the average must not.
#[test]
fn training_on_does_not_reach_it() {
    let mut model = cvt(&Device::flex().autodiff());
    let mut optimizer = adamw(&model);
    let ema = Ema::new(&model, []);
    model = train(model, &mut optimizer, 0);
    let ema = ema.update(&model, 0.5);
    let (averaged, trained) = (state(ema.network()), state(&model));
    model = train(model, &mut optimizer, 1);
    for (name, values) in state(&model) {
        let moved = values != trained[&name];
        assert!(moved || !is_statistic(&name), "{name} stayed");
    }
    assert_eq!(state(ema.network()), averaged);

    // Neither its evaluation nor its next update affects the trained model.
    let trained = state(&model);
    ema.network()
        .forward(images(0, &Device::flex()), Phase::Eval);
    let ema = ema.update(&model, 0.5);
    assert!(state(ema.network()) != averaged);
    assert_eq!(state(&model), trained);
}

/// A schedule of the decay: each update uses its own value.
#[test]
fn the_decay_may_change() {
    let mut model = cvt(&Device::flex().autodiff());
    let mut optimizer = adamw(&model);
    let mut ema = Ema::new(&model, []);
    let name = "head.weight";
    let mut expected = state(&model)[name].clone();
    for (step, decay) in [0.9, 0.0, 0.25, 1.0].into_iter().enumerate() {
        model = train(model, &mut optimizer, step);
        ema = ema.update(&model, decay);
        for (e, m) in expected.iter_mut().zip(&state(&model)[name]) {
            *e = *e * decay as f32 + m * (1.0 - decay) as f32;
        }
    }
    for (found, expected) in state(ema.network())[name].iter().zip(&expected) {
        assert!((found - expected).abs() < 1e-6, "{found} is not {expected}");
    }
}

/// `scripts/reference/schedule.py` writes the decays of timm's `ModelEmaV3`.
#[test]
fn the_decay_warms_up_as_timms() {
    let golden: serde_json::Value =
        serde_json::from_str(include_str!("../../../tests/golden/schedule.json")).unwrap();
    let golden = &golden["ema"];
    let mut config = EmaConfig {
        decay: golden["decay"].as_f64().unwrap(),
        warmup: true,
        ..EmaConfig::default()
    };
    let decays = golden["decays"].as_array().unwrap();
    assert_eq!(
        config.decay_after(0),
        0.0,
        "the first weights are the average"
    );
    for (updates, expected) in (0..).zip(decays) {
        let error = config.decay_after(updates) - expected.as_f64().unwrap();
        assert!(error.abs() < 1e-12, "after {updates} updates");
    }
    assert_eq!(
        decays.last().unwrap().as_f64(),
        Some(config.decay),
        "it was reached"
    );
    config.warmup = false;
    assert_eq!(
        [0, 1, 99].map(|updates| config.decay_after(updates)),
        [config.decay; 3]
    );
}
