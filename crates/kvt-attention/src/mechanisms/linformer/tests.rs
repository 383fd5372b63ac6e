#![expect(clippy::unwrap_used, reason = "tests")]

use burn::tensor::Device;
use kvt_ops::{Key, Phase};
use kvt_testing::devices::{assert_close, values};

use super::super::golden::{Golden, Inputs, Outcome};
use super::*;
use crate::{BurnInit, Score, attend};

fn config(rank: usize) -> LinformerConfig {
    LinformerConfig {
        rank,
        ..LinformerConfig::default()
    }
}

fn context() -> Context {
    Place::new(33, 24, 3).context(Phase::Eval)
}

fn qkv() -> [Tensor<4>; 3] {
    let golden = Golden::read("linformer");
    ["q", "k", "v"].map(|name| golden.tensor(name, &Device::flex()))
}

/// The module of a file, after checking that the settings make one with these shapes.
fn loaded(golden: &Golden, device: &Device, config: &LinformerConfig, keys: usize) -> Linformer {
    let mut made = config.init(&Place::new(keys, 24, 3), &BurnInit::new(device));
    let load = |name, param: &mut Param<Tensor<2>>| {
        let weight = golden.tensor::<2>(name, device);
        assert_eq!(weight.dims(), param.dims());
        *param = Param::from_tensor(weight);
    };
    load("proj_k", &mut made.proj_k);
    if let Some(proj_v) = &mut made.proj_v {
        load("proj_v", proj_v);
    }
    made
}

#[test]
fn same_as_pytorch() {
    let shared = LinformerConfig {
        shared: true,
        temperature: 2.0,
        ..config(6)
    };
    for (name, config, keys) in [
        ("linformer", config(11), 33),
        ("linformer_shared", shared, 21),
    ] {
        let golden = Golden::read(name);
        golden.check(1e-5, |inputs| {
            let Inputs { q, k, v, .. } = inputs;
            let module = loaded(&golden, &inputs.device, &config, keys);
            let out = module.attend(q.clone(), k.clone(), v.clone(), context());
            let outcome = Outcome::new(out).learned("proj_k", module.proj_k.val());
            match module.proj_v {
                Some(proj_v) => outcome.learned("proj_v", proj_v.val()),
                None => outcome,
            }
        });
    }
}

#[test]
fn sums_of_one_token_each_are_dense_attention() {
    let identity = || Param::from_tensor(Tensor::eye(33, &Device::flex()));
    let module = Linformer {
        proj_k: identity(),
        proj_v: Some(identity()),
        softmax: SoftmaxAttention::dense(),
    };
    let [q, k, v] = qkv();
    let dense = SoftmaxAttention::dense().attend(q.clone(), k.clone(), v.clone(), context());
    let out = module.attend(q, k, v, context());
    assert_close("dense", &values(out), &values(dense), 1e-6);
}

/// Weights are dropped as by dense attention over the sums, and half types are preserved.
#[test]
fn dropout_and_half_types() {
    let device = Device::flex();
    let module = loaded(&Golden::read("linformer"), &device, &config(11), 33);
    let place = Place {
        dropout: 0.5,
        ..Place::new(33, 24, 3)
    };
    let context = place.context(Phase::Train(Key::new(3)));
    let [q, k, v] = qkv();
    let sum = |weight: &Param<Tensor<2>>, x: Tensor<4>| {
        let weight = weight.val().transpose().reshape([1, 1, 11, 33]);
        weight.expand([2, 3, 11, 33]).matmul(x)
    };
    let expected = attend(
        q.clone(),
        sum(&module.proj_k, k.clone()),
        sum(module.proj_v.as_ref().unwrap(), v.clone()),
        Score::default(),
        context.scale,
        &SoftmaxAttention::dense(),
        context.dropout,
    );
    let plain = values(module.attend(q.clone(), k.clone(), v.clone(), place.context(Phase::Eval)));
    let dropped = values(module.attend(q.clone(), k.clone(), v.clone(), context));
    assert_close("dropout", &dropped, &values(expected.unwrap()), 1e-5);
    assert_ne!(dropped, plain);

    let [q, k, v] = [q, k, v].map(|x| x.cast(DType::F16));
    let half = module.attend(q, k, v, place.context(Phase::Eval));
    assert_eq!(half.dtype(), DType::F16);
    assert_close("f16", &values(half), &plain, 5e-3);
}

#[test]
fn costs_by_hand() {
    let place = Place {
        keys: 10,
        ..Place::new(50, 24, 3)
    };
    let shared = LinformerConfig {
        shared: true,
        ..config(4)
    };
    for (config, params) in [(config(4), 80), (shared, 40)] {
        let cost = Cost {
            params,
            // Keys and values summed to 4 of 24 channels, and two products of 50 queries with them.
            macs: Macs::attention(2 * 10 * 4 * 24 + 2 * 50 * 4 * 24),
            kept: 10,
        };
        assert_eq!(config.cost(&place), cost);
        let module = config.init(&place, &BurnInit::new(&Device::flex()));
        assert_eq!(module.num_params(), params);
    }
}

/// As `xavier_uniform_` with a gain of 1 / sqrt(2): a variance of 1 / (tokens + rank).
#[test]
fn weights_start_as_the_authors() {
    let module = config(200).init(&Place::new(300, 24, 3), &BurnInit::new(&Device::flex()));
    for proj in [module.proj_k, module.proj_v.unwrap()] {
        let variance = (proj.val() * proj.val()).mean().into_scalar::<f32>();
        assert!((variance * 500.0 - 1.0).abs() < 0.05, "{variance}");
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let place = Place::new(65, 24, 3);
    assert_eq!(config(65).fits(&place), Ok(()));
    let dropout = Place {
        dropout: 0.1,
        ..place
    };
    assert_eq!(config(65).fits(&dropout), Ok(()));
    let message = |place: Place| config(66).fits(&place).unwrap_err().to_string();
    assert_eq!(
        message(place),
        "`kind = \"linformer\"` has `rank` 66, which is more than the 65 tokens: set `rank` to 65 or less"
    );
    assert_eq!(
        message(Place::new(0, 24, 3)),
        "`kind = \"linformer\"` has weights for every key: say how many tokens there are"
    );
    let bias = message(Place {
        bias: true,
        ..place
    });
    assert!(bias.contains("bias"), "{bias}");
}
