#![expect(clippy::unwrap_used, reason = "tests")]

use burn::tensor::Device;
use kvt_ops::{Key, Phase};
use kvt_testing::devices::{assert_close, values};

use super::super::golden::{Golden, Inputs, Outcome};
use super::*;
use crate::{BurnInit, Macs, Score, attend};

fn config(points: usize) -> InducingConfig {
    InducingConfig {
        points,
        ..InducingConfig::default()
    }
}

fn luna(points: usize) -> LunaConfig {
    LunaConfig {
        points,
        ..LunaConfig::default()
    }
}

fn context() -> Context {
    Place::new(33, 24, 3).context(Phase::Eval)
}

fn qkv() -> [Tensor<4>; 3] {
    let golden = Golden::read("inducing");
    ["q", "k", "v"].map(|name| golden.tensor(name, &Device::flex()))
}

/// Loads the weights of a file into a module, whose shapes must match.
fn load(golden: &Golden, device: &Device, module: InducedAttention) -> InducedAttention {
    let points = golden.tensor::<3>("points", device);
    let weight = golden.tensor::<2>("kv_weight", device);
    let bias = golden.tensor::<1>("kv_bias", device);
    assert_eq!(points.dims(), module.points.dims());
    assert_eq!(weight.dims(), module.kv.weight.dims());
    assert_eq!(bias.dims(), module.kv.bias.unwrap().dims());
    InducedAttention {
        points: Param::from_tensor(points),
        kv: Linear {
            weight: Param::from_tensor(weight),
            bias: Some(Param::from_tensor(bias)),
        },
        softmax: module.softmax,
    }
}

#[test]
fn same_as_pytorch() {
    let place = Place::new(33, 24, 3);
    let inducing = |init: &BurnInit| config(5).init(&place, init);
    let luna = |init: &BurnInit| {
        let config = LunaConfig {
            temperature: 2.0,
            ..luna(6)
        };
        config.init(&place, init)
    };
    type Make<'a> = &'a dyn Fn(&BurnInit) -> InducedAttention;
    let both: [(&str, Make<'_>); 2] = [("inducing", &inducing), ("luna", &luna)];
    for (name, make) in both {
        let golden = Golden::read(name);
        golden.check(1e-5, |inputs| {
            let Inputs { q, k, v, .. } = inputs;
            let module = make(&BurnInit::new(&inputs.device));
            let module = load(&golden, &inputs.device, module);
            let out = module.attend(q.clone(), k.clone(), v.clone(), context());
            Outcome::new(out)
                .learned("points", module.points.val())
                .learned("kv_weight", module.kv.weight.val())
                .learned("kv_bias", module.kv.bias.unwrap().val())
        });
    }
}

/// Points that select one key each take its value, so that the summary equals the tokens.
#[test]
fn points_at_the_keys_are_dense_attention() {
    let device = Device::flex();
    let [q, k, _] = qkv().map(|x| x.narrow(0, 0, 1));
    let norm = (k.clone() * k.clone()).sum_dim(3).sqrt();
    let k = k / norm;
    let identity = Tensor::<2>::eye(24, &device);
    let module = InducedAttention {
        points: Param::from_tensor(merge_heads(k.clone()) * 2000.0),
        kv: Linear {
            weight: Param::from_tensor(Tensor::cat(vec![identity.clone(), identity], 1)),
            bias: None,
        },
        softmax: SoftmaxAttention::dense(),
    };
    let dense = SoftmaxAttention::dense().attend(q.clone(), k.clone(), k.clone(), context());
    let out = module.attend(q, k.clone(), k, context());
    assert_close("dense", &values(out), &values(dense), 1e-5);
}

#[test]
fn the_order_of_keys_does_not_matter_and_that_of_queries_carries_over() {
    let module = config(5).init(&Place::new(33, 24, 3), &BurnInit::new(&Device::flex()));
    let [q, k, v] = qkv();
    let out = module.attend(q.clone(), k.clone(), v.clone(), context());
    let turned = module.attend(
        q.clone(),
        k.clone().flip([2]),
        v.clone().flip([2]),
        context(),
    );
    assert_close("keys", &values(turned), &values(out.clone()), 1e-5);
    let turned = module.attend(q.flip([2]), k, v, context()).flip([2]);
    assert_close("queries", &values(turned), &values(out), 1e-5);
}

/// Two projections of the summary with the same weights equal one.
#[test]
fn luna_is_inducing_with_one_projection() {
    let place = Place::new(33, 24, 3);
    let tied = luna(6).init(&place, &BurnInit::new(&Device::flex()));
    let twice = |x: Tensor<2>| Tensor::cat(vec![x.clone(), x], 1);
    let bias = tied.kv.bias.as_ref().unwrap().val().unsqueeze::<2>();
    let untied = InducedAttention {
        points: tied.points.clone(),
        kv: Linear {
            weight: Param::from_tensor(twice(tied.kv.weight.val())),
            bias: Some(Param::from_tensor(twice(bias).squeeze_dim(0))),
        },
        softmax: SoftmaxAttention::dense(),
    };
    let [q, k, v] = qkv();
    let expected = untied.attend(q.clone(), k.clone(), v.clone(), context());
    let out = tied.attend(q, k, v, context());
    assert_close("tied", &values(out), &values(expected), 1e-6);
}

/// The weights of both attentions are dropped, by different draws, and half types are preserved.
#[test]
fn dropout_and_half_types() {
    let device = Device::flex();
    let place = Place {
        dropout: 0.5,
        ..Place::new(33, 24, 3)
    };
    let module = load(
        &Golden::read("inducing"),
        &device,
        config(5).init(&place, &BurnInit::new(&device)),
    );
    let context = place.context(Phase::Train(Key::new(3)));
    let [q, k, v] = qkv();
    let dense = |q, k, v, dropout| {
        let softmax = SoftmaxAttention::dense();
        attend(q, k, v, Score::default(), context.scale, &softmax, dropout).unwrap()
    };
    let [points] = split_heads(module.points.val(), 3);
    let dropout = context.dropout.unwrap();
    let first = dense(
        Tensor::cat(vec![points.clone(), points], 0),
        k.clone(),
        v.clone(),
        Some(dropout.named("points")),
    );
    let summary = module.kv.forward(merge_heads(first));
    let [keys, summary] = split_heads(summary, 3);
    let expected = dense(q.clone(), keys, summary, Some(dropout));
    let dropped = module.attend(q.clone(), k.clone(), v.clone(), context);
    assert_close("dropout", &values(dropped), &values(expected), 1e-5);

    let plain = values(module.attend(q.clone(), k.clone(), v.clone(), place.context(Phase::Eval)));
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
    let device = Device::flex();
    let init = BurnInit::new(&device);
    let untied = LunaConfig {
        tied: false,
        ..luna(4)
    };
    for (cost, module, outputs) in [
        (config(4).cost(&place), config(4).init(&place, &init), 48),
        (untied.cost(&place), untied.init(&place, &init), 48),
        (luna(4).cost(&place), luna(4).init(&place, &init), 24),
    ] {
        let params = 4 * 24 + 24 * outputs + outputs;
        let expected = Cost {
            params,
            // 4 summaries projected; two products of the points with 10 tokens, and of 50 queries with the points.
            macs: Macs {
                linear: 4 * 24 * outputs as u64,
                attention: 2 * 4 * 10 * 24 + 2 * 50 * 4 * 24,
            },
            kept: 10,
        };
        assert_eq!(cost, expected);
        assert_eq!(module.num_params(), params);
    }
}

/// Variances: `xavier_uniform_` of the points as a matrix, and 1 / dim.
#[test]
fn points_start_as_the_authors() {
    let (place, device) = (Place::new(33, 24, 3), Device::flex());
    let variance = |module: InducedAttention| {
        let points = module.points.val();
        (points.clone() * points).mean().into_scalar::<f32>()
    };
    let inducing = variance(config(2000).init(&place, &BurnInit::new(&device)));
    assert!((inducing * 2024.0 / 2.0 - 1.0).abs() < 0.05, "{inducing}");
    let luna = variance(luna(2000).init(&place, &BurnInit::new(&device)));
    assert!((luna * 24.0 - 1.0).abs() < 0.05, "{luna}");
}

#[test]
fn what_does_not_fit_is_refused() {
    let place = Place {
        dropout: 0.1,
        ..Place::new(0, 24, 3)
    };
    assert_eq!(config(32).fits(&place), Ok(()));
    assert_eq!(luna(32).fits(&place), Ok(()));
    let place = Place {
        mask: true,
        ..place
    };
    for (kind, error) in [
        ("inducing", config(32).fits(&place)),
        ("luna", luna(32).fits(&place)),
    ] {
        let message = error.unwrap_err().to_string();
        assert!(
            message.contains(kind) && message.contains("hidden"),
            "{message}"
        );
    }
}
