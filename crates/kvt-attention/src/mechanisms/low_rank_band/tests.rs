#![expect(clippy::unwrap_used, reason = "tests")]

use burn::tensor::{Device, Tensor};
use kvt_testing::devices::{assert_close, tensor, values};

use super::super::golden::{Golden, Outcome};
use super::super::testing::{assert_half_is_widened, context, numbers, qkv};
use super::*;
use crate::{BurnInit, SoftmaxAttention};

fn config(radius: usize, maps: usize) -> LowRankBandConfig {
    LowRankBandConfig {
        radius,
        maps,
        ..LowRankBandConfig::default()
    }
}

/// One feature map, and the same weights for all heads.
fn blended(radius: usize, near: f32, far: f32) -> LowRankBand {
    let device = Device::flex();
    LowRankBand {
        near: Param::from_tensor(Tensor::full([3], near, &device)),
        far: Param::from_tensor(Tensor::full([1, 3], far, &device)),
        radius,
        epsilon: 0.0,
    }
}

#[test]
fn same_as_pytorch() {
    for name in ["low-rank-band", "low-rank-band_map"] {
        let golden = Golden::read(name);
        let setting = |key| golden.setting(key) as usize;
        let map = name == "low-rank-band_map";
        golden.check(1e-5, |inputs| {
            let module = LowRankBand {
                near: Param::from_tensor(golden.tensor("near", &inputs.device)),
                far: Param::from_tensor(golden.tensor("far", &inputs.device)),
                radius: setting("radius"),
                epsilon: golden.setting("epsilon"),
            };
            let context = Context {
                prefix: if map { setting("prefix") } else { 0 },
                grid: map.then(|| [setting("rows"), setting("columns")]),
                ..context()
            };
            let [q, k, v] = [&inputs.q, &inputs.k, &inputs.v].map(Clone::clone);
            Outcome::new(module.attend(q, k, v, context))
                .learned("near", module.near.val())
                .learned("far", module.far.val())
        });
    }
}

#[test]
fn a_window_over_everything_alone_is_dense_attention() {
    let [q, k, v] = qkv();
    let expected = SoftmaxAttention::dense().attend(q.clone(), k.clone(), v.clone(), context());
    for (grid, prefix) in [(None, 0), (Some([4, 8]), 1)] {
        let context = Context {
            grid,
            prefix,
            ..context()
        };
        let dense = blended(32, 1.0, 0.0);
        let out = dense.attend(q.clone(), k.clone(), v.clone(), context);
        assert_close("dense", &values(out), &values(expected.clone()), 1e-6);
    }
}

/// The kernel attention, computed with its matrix of weights.
#[test]
fn without_a_window_it_is_linear_attention() {
    let [q, k, v] = qkv();
    let out = blended(2, 0.0, 1.0).attend(q.clone(), k.clone(), v.clone(), context());
    // `burn` has the function built in.
    let phi = |x: Tensor<4>| burn::tensor::activation::elu(x, 1.0) + 1.0;
    let weights = phi(q).matmul(phi(k).swap_dims(2, 3));
    let sums = weights.clone().sum_dim(3);
    let expected = (weights / sums).matmul(v);
    assert_close("linear", &values(out), &values(expected), 2e-6);
}

/// Heads keep their weights if windows are folded into the heads.
#[test]
fn windows_beside_the_heads_share_the_weights() {
    let [q, k, v] = [1, 2, 3].map(|seed| numbers([2, 6, 9, 4], seed));
    let device = Device::flex();
    let module = LowRankBand {
        near: Param::from_tensor(tensor(&[0.5, 1.0, 2.0], [3], &device)),
        far: Param::from_tensor(tensor(&[3.0, -1.0, 0.25, 0.0, 1.0, 2.0], [2, 3], &device)),
        ..blended(1, 0.0, 0.0)
    };
    let together = module.attend(q.clone(), k.clone(), v.clone(), context());
    for window in 0..2 {
        let [q, k, v] = [&q, &k, &v].map(|x| x.clone().narrow(1, 3 * window, 3));
        let alone = module.attend(q, k, v, context());
        let part = together.clone().narrow(1, 3 * window, 3);
        assert_close("window", &values(part), &values(alone), 1e-6);
    }
}

#[test]
fn half_types_are_widened() {
    assert_half_is_widened(&blended(3, 0.5, 0.75), &context());
}

#[test]
fn both_parts_begin_with_a_half() {
    let place = Place::new(33, 24, 3);
    for maps in 1..=3 {
        let config = config(2, maps);
        let module = config.init(&place, &BurnInit::new(&Device::flex()));
        assert_eq!(values(module.near.val()), [0.5; 3]);
        assert_eq!(module.far.val().dims(), [maps, 3]);
        let far = values(module.far.val());
        assert!((far.iter().sum::<f32>() - 1.5).abs() < 1e-6);
        assert_eq!(module.num_params(), config.cost(&place).params);
        // Weights of both parts add up to one.
        let [q, k, _] = qkv();
        let out = module.attend(q.clone(), k, q.ones_like(), context());
        assert_close("ones", &values(out.clone()), &values(out.ones_like()), 1e-5);
    }
}

#[test]
fn costs_by_hand() {
    // A row of 5 in windows of 2, 3, 3, 3, 2; two kernels of 8 features.
    let cost = config(1, 2).cost(&Place::new(5, 24, 3));
    assert_eq!(cost.macs, Macs::attention((2 * 13 + 2 * 2 * 5 * 8) * 24));
    assert_eq!((cost.params, cost.kept), (9, 5));
    // Full windows cost as much as dense attention, plus a kernel.
    let cost = config(32, 1).cost(&Place::new(33, 24, 3));
    let dense = 2 * 33 * 33 * 24;
    assert_eq!(cost.macs, Macs::attention(dense + 2 * 33 * 8 * 24));
}

#[test]
fn what_makes_no_sense_is_refused() {
    assert!(LowRankBandConfig::default().validate().is_ok());
    assert!(config(1025, 1).validate().is_err());
    for maps in [0, 4] {
        assert!(config(1, maps).validate().is_err());
    }
    for epsilon in [-1.0, 0.0, f64::NAN, f64::INFINITY] {
        let config = LowRankBandConfig {
            epsilon,
            ..config(1, 1)
        };
        assert!(config.validate().is_err());
    }
    let place = Place::new(33, 24, 3);
    assert!(config(1, 1).fits(&place).is_ok());
    let dropped = Place {
        dropout: 0.1,
        ..place
    };
    assert_eq!(
        config(1, 1).fits(&dropped).unwrap_err().to_string(),
        "`kind = \"low-rank-band\"` makes no attention weights beyond its window that could be dropped: \
         set `attn_drop` to 0"
    );
    let cross = Place { keys: 8, ..place };
    assert!(config(1, 1).fits(&cross).is_err());
}
