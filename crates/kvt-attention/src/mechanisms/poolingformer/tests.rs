use burn::tensor::Device;
use kvt_ops::Key;
use kvt_testing::devices::{assert_close, values};

use super::super::golden::{Golden, Outcome};
use super::super::testing::{assert_half_is_widened, context, numbers, qkv};
use super::*;
use crate::{BurnInit, Dropout, Macs, SoftmaxAttention};

fn config(radius: usize, pool_radius: usize, pool: usize, stride: usize) -> PoolingformerConfig {
    PoolingformerConfig {
        radius,
        pool_radius,
        pool,
        stride,
        temperature: 1.0,
    }
}

fn made(config: &PoolingformerConfig) -> Poolingformer {
    let place = Place::new(33, 24, 3);
    config.init(&place, &BurnInit::new(&Device::flex()))
}

#[test]
fn same_as_pytorch() {
    for name in ["poolingformer", "poolingformer_map"] {
        let golden = Golden::read(name);
        let setting = |key| golden.setting(key) as usize;
        let config = config(
            setting("radius"),
            setting("pool_radius"),
            setting("pool"),
            setting("stride"),
        );
        assert!(config.validate().is_ok());
        let map = name == "poolingformer_map";
        golden.check(1e-5, |inputs| {
            let [q, k, v] = [&inputs.q, &inputs.k, &inputs.v].map(Clone::clone);
            let context = Context {
                scale: (q.dims()[3] as f64).powf(-0.5),
                prefix: if map { setting("prefix") } else { 0 },
                grid: map.then(|| [setting("rows"), setting("columns")]),
                ..context()
            };
            Outcome::new(made(&config).attend(q, k, v, context))
        });
    }
}

#[test]
fn windows_over_everything_and_pools_of_one_token_are_twice_dense() {
    let [q, k, v] = qkv();
    let dense = SoftmaxAttention::dense().attend(q.clone(), k.clone(), v.clone(), context());
    for (grid, prefix) in [(None, 0), (None, 1), (Some([3, 11]), 0), (Some([4, 8]), 1)] {
        let context = Context {
            grid,
            prefix,
            ..context()
        };
        let all = made(&config(32, 32, 1, 1));
        let out = all.attend(q.clone(), k.clone(), v.clone(), context);
        assert_close("dense", &values(out), &values(dense.clone() * 2.0), 1e-6);
    }
}

#[test]
fn a_window_of_one_token_and_one_pool_are_the_value_and_the_mean() {
    let [q, k, v] = qkv();
    for grid in [None, Some([3, 11])] {
        let context = Context { grid, ..context() };
        let out = made(&config(0, 16, 33, 33)).attend(q.clone(), k.clone(), v.clone(), context);
        let expected = v.clone() + v.clone().mean_dim(2).expand(v.dims());
        assert_close("mean", &values(out), &values(expected), 1e-6);
    }
}

#[test]
fn both_levels_drop_weights_from_streams_of_their_own() {
    let [q, k, _] = qkv();
    let ones = q.ones_like();
    let dropped = Context {
        dropout: Some(Dropout {
            probability: 0.5,
            key: Key::new(2),
        }),
        ..context()
    };
    // Both levels see all tokens: with one stream their sums would be the same.
    let all = made(&config(32, 32, 1, 1));
    let both = all.attend(q.clone(), k.clone(), ones.clone(), dropped.clone());
    let first = SoftmaxAttention::dense().attend(q, k, ones, dropped);
    let (both, first) = (values(both), values(first));
    let mean = both.iter().sum::<f32>() / both.len() as f32;
    assert!((mean - 2.0).abs() < 0.1, "{mean}");
    let twice = both
        .iter()
        .zip(&first)
        .filter(|(both, first)| (*both - 2.0 * *first).abs() < 0.01);
    assert!(twice.count() < both.len() / 4);
}

#[test]
fn the_temperature_divides_scores() {
    let [q, k, v] = qkv();
    let sharp = made(&PoolingformerConfig {
        temperature: 0.5,
        ..config(2, 4, 3, 2)
    });
    let twice = Context {
        scale: 2.0 * context().scale,
        ..context()
    };
    let a = sharp.attend(q.clone(), k.clone(), v.clone(), context());
    let b = made(&config(2, 4, 3, 2)).attend(q, k, v, twice);
    assert_close("temperature", &values(a), &values(b), 1e-6);
}

#[test]
fn costs_by_hand() {
    // A row of 5: windows of 2, 3, 3, 3, 2. Pools of two, two and one token around 0.5, 2.5 and 4: seen are 0;
    // 0; 1 (0.5 away; 0 is 1.5 away); 1 and 2; 2.
    let cost = config(1, 1, 2, 2).cost(&Place::new(5, 24, 3));
    assert_eq!(cost.macs, Macs::attention(2 * (13 + 6) * 24));
    // Four of five tokens: from one before a pool to its other end.
    assert_eq!((cost.params, cost.kept), (0, 4));
    // A map of 4 rows and 5 columns after a class token, which pairs with itself and twice with all others.
    let place = Place {
        prefix: 1,
        grid: Some([4, 5]),
        ..Place::new(21, 24, 3)
    };
    // Along the rows: windows of 2, 3, 3, 2; pools around 0.5 and 2.5; each sees one of them.
    let near = 10 * 13 + 41;
    let far = 4 * 6 + (1 + 6) + 20;
    let cost = config(1, 1, 2, 2).cost(&place);
    assert_eq!(cost.macs, Macs::attention(2 * (near + far) * 24));
    assert_eq!(cost.kept, 1 + 16);
}

#[test]
fn what_makes_no_sense_is_refused() {
    assert!(PoolingformerConfig::default().validate().is_ok());
    let refused = [
        config(1, 8, 2, 0),
        config(1, 8, 2, 3),
        config(1, 8, 0, 0),
        config(1, 1, 4, 4),
        config(1025, 1, 1, 1),
        config(1, 1025, 1, 1),
        config(1, 1024, 1025, 1),
        PoolingformerConfig {
            temperature: 0.0,
            ..config(1, 1, 1, 1)
        },
    ];
    for config in refused {
        assert!(config.validate().is_err(), "{config:?}");
    }
    let valid = [
        config(0, 0, 1, 1),
        config(1, 2, 4, 4),
        config(1, 2, 5, 5),
        config(1024, 1024, 1024, 1024),
    ];
    for config in valid {
        assert!(config.validate().is_ok(), "{config:?}");
    }
    let cross = Place {
        keys: 8,
        ..Place::new(33, 24, 3)
    };
    assert!(config(1, 1, 1, 1).fits(&cross).is_err());
    let dropped = Place {
        dropout: 0.1,
        ..Place::new(33, 24, 3)
    };
    assert!(config(1, 1, 1, 1).fits(&dropped).is_ok());
}

#[test]
fn half_types_are_widened() {
    let context = Context {
        grid: Some([4, 8]),
        prefix: 1,
        ..context()
    };
    assert_half_is_widened(&made(&config(1, 3, 3, 2)), &context);
}

/// The smallest allowed radius: every token sees a pool, whatever the length.
#[test]
fn every_token_sees_a_pool() {
    for pool in 1..6 {
        for stride in 1..=pool {
            let config = config(0, pool / 2, pool, stride);
            assert!(config.validate().is_ok());
            for tokens in 1..24 {
                let [q, k, v] = [1, 2, 3].map(|seed| numbers([1, 1, tokens, 2], seed));
                let out = values(made(&config).attend(q, k, v, context()));
                assert!(out.iter().all(|x| x.is_finite()), "{config:?} {tokens}");
            }
        }
    }
}
