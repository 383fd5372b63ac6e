#![expect(clippy::unwrap_used, reason = "tests")]

use burn::tensor::{DType, Device, Tensor};
use kvt_ops::{Key, Phase};
use kvt_testing::devices::{assert_close, tensor, values};
use schemars::SchemaGenerator;
use serde_json::{Value, json};

use super::*;
use crate::{AttentionConfig, BurnInit, Macs, Mechanism, Mixer, ParamInit};

const DETERMINISTIC: [&str; 2] = ["linear", "dpfp"];
const RANDOM: [&str; 4] = ["favor", "performer", "performer-relu", "rfa"];

fn kinds() -> impl Iterator<Item = &'static str> {
    DETERMINISTIC.into_iter().chain(RANDOM)
}

fn config(settings: Value) -> AttentionConfig {
    serde_json::from_value(settings).unwrap()
}

fn normal<const D: usize>(name: &str, shape: [usize; D], device: &Device) -> Tensor<D> {
    let numbers = gaussian(Key::new(1).named(name), 1, shape.iter().product(), false);
    tensor(&numbers, shape, device)
}

/// Queries, keys and values of two images and three heads.
fn inputs(device: &Device) -> [Tensor<4>; 3] {
    [
        normal("q", [2, 3, 9, 8], device) * 0.5,
        normal("k", [2, 3, 7, 8], device) * 0.5,
        normal("v", [2, 3, 7, 5], device),
    ]
}

fn place() -> Place {
    Place {
        keys: 7,
        ..Place::new(9, 24, 3)
    }
}

fn attend(mixer: &Mixer, inputs: [Tensor<4>; 3], phase: Phase) -> Tensor<4> {
    let [q, k, v] = inputs;
    mixer.attend(q, k, v, place().context(phase))
}

/// Against the matrix of all weights, in f64, with an epsilon large enough to matter.
#[test]
fn no_weight_is_computed_and_the_result_is_the_same() {
    const EPSILON: f64 = 0.5;
    let (queries, keys, features, dim) = (5, 7, 3, 2);
    let draw = |name: &str, rows, cols| gaussian(Key::new(2).named(name), rows, cols, false);
    let q: Vec<f32> = draw("q", queries, features)
        .iter()
        .map(|x| x.abs())
        .collect();
    let k: Vec<f32> = draw("k", keys, features).iter().map(|x| x.abs()).collect();
    let v = draw("v", keys, dim);
    let weight = |i: usize, j: usize| -> f64 {
        (0..features)
            .map(|f| f64::from(q[i * features + f]) * f64::from(k[j * features + f]))
            .sum()
    };
    let mut expected = Vec::new();
    for i in 0..queries {
        let sum: f64 = (0..keys).map(|j| weight(i, j)).sum();
        for c in 0..dim {
            let value = |j: usize| weight(i, j) * f64::from(v[j * dim + c]);
            expected.push(((0..keys).map(value).sum::<f64>() / (sum + EPSILON)) as f32);
        }
    }
    let device = Device::flex();
    let [q, k, v] = [
        tensor(&q, [1, 1, queries, features], &device),
        tensor(&k, [1, 1, keys, features], &device),
        tensor(&v, [1, 1, keys, dim], &device),
    ];
    let out = attend_features(q.clone(), k.clone(), v.clone(), EPSILON);
    assert_close("positive", &values(out), &expected, 1e-6);
    // Nothing is added to sums beyond epsilon.
    let signed = attend_signed_features([&q, &k, &v].map(Clone::clone), 1e-6);
    let plain = attend_features(q, k, v, 0.0);
    assert_eq!(values(signed), values(plain));
}

/// By hand: one query of one feature, one key for each sum.
#[test]
fn denominators_near_zero_are_moved_and_keep_their_sign_beyond() {
    let device = Device::flex();
    for (sum, divisor) in [
        (0.0, 1.0),
        (-0.25, 0.75),
        (0.5, 1.5),
        (-0.75, -0.75),
        (2.0, 2.0),
    ] {
        let one = |x: f32| tensor(&[x], [1, 1, 1, 1], &device);
        // Two more keys cancel in the sum, but not in the numerator.
        let k = tensor(&[sum, 1.0, -1.0], [1, 1, 3, 1], &device);
        let v = tensor(&[0.0, 2.0, -1.0], [1, 1, 3, 1], &device);
        let out = attend_signed_features([one(1.0), k, v], 0.5);
        assert_eq!(values(out), [3.0 / divisor], "{sum}");
    }
}

/// All kinds accept other numbers of keys and of value channels, and their rows of weights sum to one, so that equal
/// values come out unchanged.
#[test]
fn weights_sum_to_one() {
    let device = Device::flex();
    for kind in kinds() {
        let mixer = config(json!({ "kind": kind })).init(&place(), &BurnInit::new(&device));
        let [q, k, v] = inputs(&device);
        let out = attend(&mixer, [q.clone(), k.clone(), v.clone()], Phase::Eval);
        assert_eq!(out.dims(), [2, 3, 9, 5], "{kind}");
        let constant = v.ones_like() * 3.0;
        let out = values(attend(&mixer, [q, k, constant], Phase::Eval));
        // `epsilon` reduces the sum slightly.
        assert_close(kind, &out, &vec![3.0; out.len()], 1e-3);
    }
}

/// The order of the keys does not matter, nor do the keys of the other image.
#[test]
fn keys_are_a_set_and_images_do_not_see_each_other() {
    let device = Device::flex();
    for kind in kinds() {
        let mixer = config(json!({ "kind": kind })).init(&place(), &BurnInit::new(&device));
        let all = attend(&mixer, inputs(&device), Phase::Eval);
        let [q, k, v] = inputs(&device);
        let turned = attend(&mixer, [q, k.flip([2]), v.flip([2])], Phase::Eval);
        assert_close(kind, &values(turned), &values(all.clone()), 1e-4);
        let second = inputs(&device).map(|x| x.narrow(0, 1, 1));
        let alone = values(attend(&mixer, second, Phase::Eval));
        assert_close(kind, &alone, &values(all.narrow(0, 1, 1)), 1e-5);
    }
}

/// Half types round inputs and outputs, but nothing in between.
#[test]
fn half_types_are_computed_in_f32() {
    let device = Device::flex();
    for kind in kinds() {
        let mixer = config(json!({ "kind": kind })).init(&place(), &BurnInit::new(&device));
        let rounded = inputs(&device).map(|x| x.cast(DType::F16));
        let out = attend(&mixer, rounded.clone(), Phase::Eval);
        assert_eq!(out.dtype(), DType::F16, "{kind}");
        let wide = attend(&mixer, rounded.map(|x| x.cast(DType::F32)), Phase::Eval);
        let expected = values(wide.cast(DType::F16));
        assert_eq!(values(out), expected, "{kind}");
    }
}

#[test]
fn random_directions_come_from_the_seed_the_place_and_the_step() {
    let device = Device::flex();
    let root = BurnInit::new(&device);
    let steps = [Key::new(1), Key::new(2)].map(Phase::Train);
    for kind in RANDOM {
        let out = |settings: Value, init: &BurnInit, phase| {
            let mixer = config(settings).init(&place(), init);
            values(attend(&mixer, inputs(&device), phase))
        };
        let plain = json!({ "kind": kind });
        let evaluated = out(plain.clone(), &root, Phase::Eval);
        assert_eq!(out(plain.clone(), &root, Phase::Eval), evaluated, "{kind}");
        assert_ne!(
            out(plain.clone(), &root.child("b"), Phase::Eval),
            evaluated,
            "{kind}"
        );
        let first = out(plain.clone(), &root, steps[0]);
        assert_ne!(first, evaluated, "{kind}");
        assert_ne!(out(plain, &root, steps[1]), first, "{kind}");
        let never = json!({ "kind": kind, "redraw": "never" });
        assert_eq!(out(never, &root, steps[0]), evaluated, "{kind}");
        for other in [
            json!({ "kind": kind, "seed": 1 }),
            json!({ "kind": kind, "features": 40 }),
            json!({ "kind": kind, "orthogonal": kind == "rfa" }),
        ] {
            assert_ne!(out(other.clone(), &root, Phase::Eval), evaluated, "{other}");
        }
    }
}

/// 50 queries and 10 keys of 3 heads of 8 channels.
#[test]
fn costs_by_hand() {
    let place = Place {
        keys: 10,
        ..Place::new(50, 24, 3)
    };
    for (settings, params, products) in [
        // Each of 60 tokens has, in each of 3 heads, 8 channels times the numbers of this column.
        (json!({ "kind": "linear" }), 0, 8),
        (json!({ "kind": "dpfp", "order": 2 }), 0, 32),
        (json!({ "kind": "performer", "features": 7 }), 0, 14),
        (json!({ "kind": "performer-relu", "features": 7 }), 0, 14),
        (
            json!({ "kind": "performer-relu", "projected": false }),
            0,
            8,
        ),
        (json!({ "kind": "favor", "features": 7 }), 0, 21),
        (json!({ "kind": "rfa", "features": 7 }), 24, 21),
    ] {
        let expected = Cost {
            params,
            macs: Macs::attention(60 * 24 * products),
            kept: 10,
        };
        let config = config(settings.clone());
        assert_eq!(config.cost(&place), expected, "{settings}");
        let module = config.init(&place, &BurnInit::new(&Device::flex()));
        assert_eq!(burn::module::Module::num_params(&module), params);
    }
}

#[test]
fn places_with_scores_are_refused() {
    for kind in kinds() {
        let config = config(json!({ "kind": kind }));
        let free = place();
        assert_eq!(config.validate_at(&free), Ok(()), "{kind}");
        for place in [
            Place { bias: true, ..free },
            Place { mask: true, ..free },
            Place {
                dropout: 0.1,
                ..free
            },
        ] {
            let message = config.validate_at(&place).unwrap_err().to_string();
            assert!(
                message.starts_with(&format!("`kind = \"{kind}\"` makes no")),
                "{message}"
            );
        }
        let unknown = Place::new(0, 24, 3);
        assert_eq!(config.validate_at(&unknown), Ok(()), "{kind}");
    }
}

/// Errors name the key; the ends of a range are valid, and agree with the schema.
#[test]
fn settings_out_of_range_are_refused_by_name() {
    type Range<'a> = (&'a str, &'a [&'a str], [Value; 2], [Value; 2]);
    let ranges: [Range<'_>; 6] = [
        (
            "order",
            &["dpfp"],
            [json!(1), json!(1024)],
            [json!(0), json!(1025)],
        ),
        (
            "epsilon",
            &["linear", "dpfp", "favor", "rfa"],
            [json!(1e-12), json!(1.0)],
            [json!(0.0), json!(1.1)],
        ),
        (
            "kernel_epsilon",
            &["performer", "performer-relu"],
            [json!(1e-12), json!(1.0)],
            [json!(0.0), json!(1.1)],
        ),
        (
            "features",
            &RANDOM,
            [json!(1), json!(65536)],
            [json!(0), json!(65537)],
        ),
        (
            "temperature",
            &["favor", "performer"],
            [json!(1e-6), json!(1e6)],
            [json!(0.0), json!(2e6)],
        ),
        (
            "tau",
            &["rfa"],
            [json!(0.01), json!(100.0)],
            [json!(0.0), json!(101.0)],
        ),
    ];
    let schemas = AttentionConfig::schemas(&mut SchemaGenerator::default());
    for (key, kinds, valid, invalid) in ranges {
        for kind in kinds {
            let with = |value: &Value| config(json!({ "kind": kind, key: value }));
            for value in &valid {
                assert_eq!(with(value).validate(), Ok(()), "{kind} {key} {value}");
            }
            for value in &invalid {
                let message = with(value).validate().unwrap_err().to_string();
                assert!(
                    message.starts_with(&format!("`{key}`")),
                    "{kind}: {message}"
                );
            }
            let place = AttentionConfig::KINDS
                .iter()
                .position(|other| other == kind);
            let schema = schemas[place.unwrap()].as_value();
            let range = ["minimum", "maximum"].map(|end| &schema["properties"][key][end]);
            assert_eq!(
                range.map(Value::as_f64),
                valid.each_ref().map(Value::as_f64),
                "{kind} {key}"
            );
        }
    }
}

/// The estimate of a softmax by 4096 features is close to it, and the one by 16 is not.
#[test]
fn more_features_are_nearer_to_the_softmax() {
    let device = Device::flex();
    let [q, k, v] = inputs(&device);
    let dense = AttentionConfig::dense().init(&place(), &BurnInit::new(&device));
    let dense = values(attend(
        &dense,
        [q.clone(), k.clone(), v.clone()],
        Phase::Eval,
    ));
    for kind in ["performer", "favor"] {
        let mean_error = |features: usize| {
            let settings = json!({ "kind": kind, "features": features });
            let mixer = config(settings).init(&place(), &BurnInit::new(&device));
            let errors = (0..10).map(|step| {
                let inputs = [q.clone(), k.clone(), v.clone()];
                let out = attend(&mixer, inputs, Phase::Train(Key::new(step)));
                let off = values(out)
                    .into_iter()
                    .zip(&dense)
                    .map(|(a, b)| f64::from(a - b).powi(2));
                off.sum::<f64>().sqrt() / unbiased::dot(&dense, &dense).sqrt()
            });
            errors.sum::<f64>() / 10.0
        };
        let (few, many) = (mean_error(16), mean_error(4096));
        assert!(many < 0.1, "{kind}: {many}");
        assert!(many < few / 4.0, "{kind}: {few} {many}");
    }
}
