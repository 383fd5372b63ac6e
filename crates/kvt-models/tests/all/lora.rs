//! Low-rank adaptation: the output is that of merged weights, and only the factors and the head are trained.

use std::collections::HashMap;

use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::tensor::{Device, Gradients, Tensor, TensorData};
use kvt_models::weights::{LoadOptions, StateDict};
use kvt_models::{Lora, Model, ModelConfig, ModelOverrides, Network};
use kvt_ops::{Key, Phase};

use crate::small::{SIDE, assert_close, configs, families, images, small, values};

fn lora(layers: &[&str]) -> Lora {
    Lora {
        rank: 2,
        alpha: 3.0,
        layers: layers.iter().map(|layer| (*layer).to_owned()).collect(),
    }
}

fn deit() -> ModelConfig {
    let (name, overrides) = families().swap_remove(0);
    let config = ModelConfig::by_name(name).unwrap();
    config.with(&small(overrides)).unwrap()
}

fn plain(config: &ModelConfig) -> Model {
    let device = Device::flex().autodiff();
    config.init(&device, Key::new(1)).unwrap()
}

/// A model with factors that are not zero: B is what A would be with its own pattern.
fn adapted(config: &ModelConfig, layers: &[&str]) -> Model {
    let device = Device::flex().autodiff();
    let model = plain(config).with_lora(&lora(layers), &device, Key::new(2));
    let mut model = model.unwrap();
    let factors: StateDict = model
        .factors()
        .unwrap()
        .into_iter()
        .map(|(name, data)| {
            let shape = data.shape().clone();
            let count = shape.num_elements();
            let pattern = (0..count).map(|i| (i * 7 % 11) as f32 / 20.0 - 0.25);
            let pattern = TensorData::new(pattern.collect::<Vec<f32>>(), shape);
            let is_b = name.ends_with(".lora_B.weight");
            (name, if is_b { pattern } else { data })
        })
        .collect();
    let base = model.adapted().unwrap();
    model.set_factors(&factors, &base).unwrap();
    assert_eq!(model.factors().unwrap(), factors);
    assert_eq!(model.adapted().unwrap(), base);
    model
}

fn floats(state: &StateDict, name: &str) -> Vec<f32> {
    let data = state.get(name).unwrap_or_else(|| panic!("no {name}"));
    data.clone().try_to_vec().unwrap()
}

/// The product of matrices, `[rows, inner]` and `[inner, columns]`.
fn product(a: &[f32], b: &[f32], [rows, inner, columns]: [usize; 3]) -> Vec<f32> {
    let mut out = vec![0.0; rows * columns];
    for (at, out) in out.iter_mut().enumerate() {
        let (row, column) = (at / columns, at % columns);
        let terms =
            (0..inner).map(|k| f64::from(a[row * inner + k]) * f64::from(b[k * columns + column]));
        *out = terms.sum::<f64>() as f32;
    }
    out
}

/// The gradients of a module's parameters, those that have one.
struct Found<'a>(&'a Gradients, HashMap<ParamId, Vec<f32>>);

impl ModuleVisitor for Found<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(gradient) = param.val().grad(self.0) {
            self.1.insert(param.id, values(gradient));
        }
    }
}

/// The gradients in training, by the names of the parameters, which are all that have one.
fn gradients(model: &Model) -> HashMap<String, Vec<f32>> {
    let input = images([SIDE; 2], &Device::flex().autodiff());
    let out = model.forward(input, Phase::Train(Key::new(3)));
    let backward = out.powi_scalar(2).sum().backward();
    let mut found = Found(&backward, HashMap::new());
    model.visit(&mut found);
    let mut by_name = HashMap::new();
    for parameter in model.parameters() {
        let gradient = found.1.remove(&parameter.id);
        by_name.insert(parameter.name.clone(), gradient.unwrap());
    }
    assert!(found.1.is_empty());
    by_name
}

#[test]
fn at_first_the_output_is_that_of_the_weights() {
    let device = Device::flex().autodiff();
    let mut seen = 0;
    for config in configs(&ModelOverrides::default()) {
        let name = config.name();
        let input = || images([SIDE; 2], &device);
        let model = plain(&config);
        let expected = values(model.forward(input(), Phase::Eval));
        let layers: &[&str] = match name.split('_').next() {
            Some("tnt") => &["attn_in", "attn_out", "mlp"],
            // Its layers are convolutions.
            Some("visformer") => continue,
            _ => &["attn", "mlp"],
        };
        let before = StateDict::from_model(&model).unwrap();
        let model = model
            .with_lora(&lora(layers), &device, Key::new(2))
            .unwrap();
        assert_eq!(
            values(model.forward(input(), Phase::Eval)),
            expected,
            "{name}"
        );
        assert_eq!(StateDict::from_model(&model).unwrap(), before, "{name}");
        // peft's initialisation.
        for (name, data) in model.factors().unwrap().iter() {
            let values: Vec<f32> = data.clone().try_to_vec().unwrap();
            if name.ends_with(".lora_B.weight") {
                assert!(values.iter().all(|x| *x == 0.0), "{name}");
            } else {
                let bound = 1.0 / (data.shape()[1] as f32).sqrt();
                let largest = values.iter().fold(0.0f32, |max, x| max.max(x.abs()));
                assert!(0.3 * bound < largest && largest <= bound, "{name}");
            }
        }
        seen += 1;
    }
    assert!(seen > 8);
}

#[test]
fn the_output_is_that_of_merged_weights() {
    let config = deit();
    let model = adapted(&config, &["attn", "blocks.0.mlp.fc2"]);
    let base = StateDict::from_model(&plain(&config)).unwrap();
    let (factors, merged) = (
        model.factors().unwrap(),
        StateDict::from_model(&model).unwrap(),
    );
    let names: Vec<&str> = factors.iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), 6, "{names:?}");
    let mut weights = StateDict::default();
    for (name, data) in base.iter() {
        let layer = name.strip_suffix(".weight").unwrap_or(name);
        let factor = |which: &str| format!("base_model.model.{layer}.{which}.weight");
        if factors.get(&factor("lora_A")).is_none() {
            assert_eq!(merged.get(name), Some(data), "{name}");
            weights.insert(name, data.clone());
            continue;
        }
        let (outputs, inputs) = (data.shape()[0], data.shape()[1]);
        let (a, b) = (
            floats(&factors, &factor("lora_A")),
            floats(&factors, &factor("lora_B")),
        );
        let change = product(&b, &a, [outputs, 2, inputs]);
        let sum = floats(&base, name).into_iter().zip(change);
        let sum: Vec<f32> = sum.map(|(w, change)| w + 1.5 * change).collect();
        assert_close(&floats(&merged, name), &sum, name);
        weights.insert(name, TensorData::new(sum, [outputs, inputs]));
    }
    let (expected, _) = plain(&config)
        .load(&weights, LoadOptions::default())
        .unwrap();
    for phase in [Phase::Eval, Phase::Train(Key::new(3))] {
        let logits = |model: &Model| {
            let input = images([SIDE; 2], &Device::flex().autodiff());
            values(model.forward(input, phase))
        };
        assert_close(&logits(&model), &logits(&expected), "logits");
        assert_close(&logits(&model.valid()), &logits(&expected), "logits");
    }
}

/// `dL/dA = s dL/dW B^T` and `dL/dB = s A^T dL/dW`, with the gradient of a merged weight that is trained itself.
#[test]
fn gradients_are_those_of_the_chain_rule_and_reach_factors_and_head_alone() {
    let config = deit();
    let layers = [
        "blocks.0.attn.qkv",
        "blocks.0.attn.proj",
        "blocks.0.mlp.fc1",
    ];
    let model = adapted(&config, &layers);
    let factors = model.factors().unwrap();
    let merged = StateDict::from_model(&model).unwrap();
    let (plain, _) = plain(&config)
        .load(&merged, LoadOptions::default())
        .unwrap();
    let (all, few) = (gradients(&plain), gradients(&model));
    assert_eq!(few.len(), 2 * layers.len() + 2);
    assert_close(&few["head.weight"], &all["head.weight"], "head");
    assert_close(&few["head.bias"], &all["head.bias"], "head");
    for layer in layers {
        let weight = format!("{layer}.weight");
        let shape = merged.get(&weight).unwrap().shape();
        let (outputs, inputs) = (shape[0], shape[1]);
        // Burn's layout: `[inputs, outputs]`.
        let of_weight = &all[&weight];
        let factor = |which: &str| {
            floats(
                &factors,
                &format!("base_model.model.{layer}.{which}.weight"),
            )
        };
        // `[rank, inputs]` and `[outputs, rank]`.
        let (a, b) = (factor("lora_A"), factor("lora_B"));
        for (which, expected) in [
            ("lora_A", product(of_weight, &b, [inputs, outputs, 2])),
            ("lora_B", product(&a, of_weight, [2, inputs, outputs])),
        ] {
            let expected: Vec<f32> = expected.iter().map(|x| 1.5 * x).collect();
            let name = format!("{layer}.{which}.weight");
            assert_close(&few[&name], &expected, &name);
        }
    }
    // Also without gradients, and back; nothing else of the backbone is a parameter.
    let before = plain.parameters().len();
    for model in [&model, &model.valid(), &model.valid().train()] {
        let names: Vec<String> = model.parameters().into_iter().map(|p| p.name).collect();
        assert_eq!(names.len(), few.len());
        assert!(names.iter().all(|name| few.contains_key(name)), "{names:?}");
        assert_eq!(model.frozen().len() + 2, before);
    }
    // Factors decay as other matrices, and are of the layer that they adapt.
    for parameter in model.parameters() {
        let is_matrix = parameter.name != "head.bias";
        assert_eq!(model.decays(&parameter), is_matrix, "{}", parameter.name);
        let layer = if parameter.name.starts_with("head") {
            2
        } else {
            1
        };
        assert_eq!(model.layer(&parameter), layer, "{}", parameter.name);
    }
    // PyTorch's layout, as of other parameters.
    let mut parameters = model.parameters().into_iter();
    let of_a = parameters.find(|parameter| parameter.name.ends_with("qkv.lora_A.weight"));
    assert_eq!(of_a.unwrap().shape, [2, 12]);
}

#[test]
fn what_cannot_be_adapted_is_refused() {
    let device = Device::flex();
    let refused = |config: &ModelConfig, lora: &Lora| {
        let model = config.init(&device, Key::new(1)).unwrap();
        let refused = model.with_lora(lora, &device, Key::new(2));
        refused.unwrap_err().to_string()
    };
    let config = deit();
    for rank in [0, 13] {
        let error = refused(
            &config,
            &Lora {
                rank,
                ..lora(&["qkv"])
            },
        );
        let expected = format!(
            "`lora.rank` is {rank}, but the weight of `blocks.0.attn.qkv` is 12 x 36: expected 1 to 12"
        );
        assert_eq!(error, expected);
    }
    // The head is trained, and a convolution is no linear layer.
    for entry in ["head", "patch_embed", "qk", "attn.fc1", ""] {
        let error = refused(&config, &lora(&["qkv", entry]));
        let expected = format!(
            "`lora.layers` has `{entry}`, which is in the name of no linear layer: there are `attn.qkv`, `attn.proj`, `mlp.fc1`, `mlp.fc2`"
        );
        assert_eq!(error, expected);
    }
    let convolutions = configs(&ModelOverrides::default());
    let visformer = convolutions
        .iter()
        .find(|config| config.name().starts_with("visformer"));
    let error = refused(visformer.unwrap(), &lora(&["attn"]));
    assert!(
        error.ends_with("this model has none outside of its head"),
        "{error}"
    );

    let mut model = adapted(&config, &["qkv"]);
    let none = StateDict::default();
    let error = model.set_factors(&none, &none).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("no `base_model.model.blocks.0.attn.qkv.lora_A.weight`"),
        "{error}"
    );
    let factors = model.factors().unwrap();
    let error = model.set_factors(&factors, &none).unwrap_err();
    assert!(
        error.to_string().contains("no `blocks.0.attn.qkv.weight`"),
        "{error}"
    );
}
