#![expect(clippy::unwrap_used, reason = "tests")]

use burn::tensor::Device;
use kvt_ops::{Key, Phase};
use kvt_testing::devices::{assert_close, values};

use super::super::golden::{Golden, Inputs, Outcome};
use super::*;
use crate::{BurnInit, Score, attend};

fn config(ratio: usize) -> MemoryCompressedConfig {
    MemoryCompressedConfig {
        ratio,
        ..MemoryCompressedConfig::default()
    }
}

/// With a class token.
fn place() -> Place {
    Place {
        prefix: 1,
        ..Place::new(33, 24, 3)
    }
}

fn qkv() -> [Tensor<4>; 3] {
    let golden = Golden::read("memory-compressed");
    ["q", "k", "v"].map(|name| golden.tensor(name, &Device::flex()))
}

/// The module of a file, after checking that the settings make one with these shapes.
fn loaded(golden: &Golden, device: &Device, config: &MemoryCompressedConfig) -> MemoryCompressed {
    let mut made = config.init(&place(), &BurnInit::new(device));
    let load = |name: &str, compression: &mut Compression| {
        let weight = golden.tensor::<4>(&format!("weight_{name}"), device);
        let bias = golden.tensor::<2>(&format!("bias_{name}"), device);
        assert_eq!(weight.dims(), compression.weight.dims());
        assert_eq!(bias.dims(), compression.bias.dims());
        compression.weight = Param::from_tensor(weight);
        compression.bias = Param::from_tensor(bias);
    };
    load("k", &mut made.compress_k);
    if let Some(compress_v) = &mut made.compress_v {
        load("v", compress_v);
    }
    made
}

#[test]
fn same_as_pytorch() {
    let shared = MemoryCompressedConfig {
        shared: true,
        temperature: 2.0,
        ..config(4)
    };
    for (name, config, place) in [
        ("memory-compressed", config(3), place()),
        ("memory-compressed_shared", shared, Place::new(33, 24, 3)),
    ] {
        let golden = Golden::read(name);
        golden.check(1e-5, |inputs| {
            let Inputs { q, k, v, .. } = inputs;
            let module = loaded(&golden, &inputs.device, &config);
            let context = place.context(Phase::Eval);
            let out = module.attend(q.clone(), k.clone(), v.clone(), context);
            let MemoryCompressed {
                compress_k,
                compress_v,
                ..
            } = module;
            let outcome = Outcome::new(out)
                .learned("weight_k", compress_k.weight.val())
                .learned("bias_k", compress_k.bias.val());
            match compress_v {
                Some(compress_v) => outcome
                    .learned("weight_v", compress_v.weight.val())
                    .learned("bias_v", compress_v.bias.val()),
                None => outcome,
            }
        });
    }
}

#[test]
fn one_token_per_key_is_dense_attention() {
    let device = Device::flex();
    let identity = Tensor::<2>::eye(8, &device).reshape([1, 1, 8, 8]);
    let compress_k = Compression {
        weight: Param::from_tensor(identity.expand([3, 1, 8, 8])),
        bias: Param::from_tensor(Tensor::zeros([3, 8], &device)),
    };
    let module = MemoryCompressed {
        compress_k,
        compress_v: None,
        softmax: SoftmaxAttention::dense(),
    };
    let [q, k, v] = qkv();
    for place in [place(), Place::new(33, 24, 3)] {
        let context = place.context(Phase::Eval);
        let [q, k, v] = [&q, &k, &v].map(Tensor::clone);
        let dense =
            SoftmaxAttention::dense().attend(q.clone(), k.clone(), v.clone(), context.clone());
        let out = module.attend(q, k, v, context);
        assert_close("dense", &values(out), &values(dense), 1e-6);
    }
}

/// Weights are dropped as by dense attention over the compressed keys, and half types are preserved.
#[test]
fn dropout_and_half_types() {
    let device = Device::flex();
    let module = loaded(&Golden::read("memory-compressed"), &device, &config(3));
    let place = Place {
        dropout: 0.5,
        ..place()
    };
    let context = place.context(Phase::Train(Key::new(3)));
    let [q, k, v] = qkv();
    let of_values = module.compress_v.as_ref().unwrap();
    let expected = attend(
        q.clone(),
        module.compress_k.forward(k.clone(), 1),
        of_values.forward(v.clone(), 1),
        Score::default(),
        context.scale,
        &SoftmaxAttention::dense(),
        context.dropout,
    );
    let plain = values(module.attend(q.clone(), k.clone(), v.clone(), place.context(Phase::Eval)));
    let dropped = values(module.attend(q.clone(), k.clone(), v.clone(), context));
    assert_close("dropout", &dropped, &values(expected.unwrap()), 1e-6);
    assert_ne!(dropped, plain);

    let [q, k, v] = [q, k, v].map(|x| x.cast(DType::F16));
    let half = module.attend(q, k, v, place.context(Phase::Eval));
    assert_eq!(half.dtype(), DType::F16);
    assert_close("f16", &values(half), &plain, 5e-3);
}

#[test]
fn costs_by_hand() {
    let place = Place {
        keys: 12,
        prefix: 2,
        ..Place::new(50, 24, 3)
    };
    let shared = MemoryCompressedConfig {
        shared: true,
        ..config(4)
    };
    // In three heads 4 tokens of 8 channels become 8 channels, and there is a bias.
    for (config, params) in [(shared, 3 * (4 * 64 + 8)), (config(4), 6 * (4 * 64 + 8))] {
        let expected = Cost {
            params,
            // Ten tokens make three keys and three values, beside the two of the prefix.
            macs: Macs {
                linear: 2 * 3 * 3 * 4 * 64,
                attention: 2 * 50 * 5 * 24,
            },
            kept: 12,
        };
        assert_eq!(config.cost(&place), expected);
        let module = config.init(&place, &BurnInit::new(&Device::flex()));
        assert_eq!(module.num_params(), params);
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    assert_eq!(config(32).fits(&place()), Ok(()));
    assert_eq!(config(33).fits(&Place::new(0, 24, 3)), Ok(()));
    let message = |place: Place| config(33).fits(&place).unwrap_err().to_string();
    assert_eq!(
        message(place()),
        "`kind = \"memory-compressed\"` cannot make one key of `ratio` 33 tokens where the map has 32: \
         set `ratio` to 32 or less"
    );
    let alone = Place { keys: 1, ..place() };
    assert!(message(alone).contains("`dense`"));
    let bias = message(Place {
        bias: true,
        ..place()
    });
    assert!(bias.contains("bias"), "{bias}");
}
