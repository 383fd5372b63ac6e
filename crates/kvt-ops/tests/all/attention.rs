//! Flash attention and packed projections against the fused attention.

use burn::tensor::{Bool, Device, Tensor, TensorData};
use kvt_ops::{AttentionSettings, Packing, attention, self_attention};
use kvt_testing::devices::{assert_close, devices_of, tensor, values};
use kvt_testing::naive::draw;

const BATCH: usize = 2;
const HEADS: usize = 3;
const TOKENS: usize = 37;
const DIM: usize = 16;
/// Of 9 keys the CPU computes all products, of 4 only those of the kept keys.
const SETTINGS: [AttentionSettings; 2] = [settings(9), settings(4)];

const fn settings(kept: usize) -> AttentionSettings {
    AttentionSettings {
        scale: 0.5,
        kept,
        flash: false,
    }
}

fn flash(settings: AttentionSettings) -> AttentionSettings {
    AttentionSettings {
        flash: true,
        ..settings
    }
}

/// The packed projection, and a gradient of the output.
fn inputs(device: &Device) -> (Tensor<3>, Tensor<3>) {
    let numbers = |seed, width: usize| {
        let data = draw(seed, BATCH * TOKENS * width, 1001, 0.002);
        tensor(&data, [BATCH, TOKENS, width], device)
    };
    (numbers(1, 3 * HEADS * DIM), numbers(2, HEADS * DIM))
}

/// Output and gradient of `qkv`.
fn packed(device: &Device, settings: AttentionSettings) -> [Vec<f32>; 2] {
    let (qkv, probe) = inputs(&device.clone().autodiff());
    let qkv = qkv.require_grad();
    let packing = Packing {
        heads: HEADS,
        windows: 1,
    };
    let out = self_attention(qkv.clone(), packing, None, None, settings);
    let grads = (out.clone() * probe).sum().backward();
    [values(out), values(qkv.grad(&grads).unwrap())]
}

/// The same with separate queries, keys and values.
fn separate(device: &Device, settings: AttentionSettings) -> [Vec<f32>; 2] {
    let (qkv, probe) = inputs(&device.clone().autodiff());
    let qkv = qkv.require_grad();
    let heads = qkv
        .clone()
        .reshape([BATCH, TOKENS, 3, HEADS, DIM])
        .permute([2, 0, 3, 1, 4]);
    let [q, k, v] = [0, 1, 2].map(|i| heads.clone().narrow(0, i, 1).squeeze_dim::<4>(0));
    let out = attention(q, k, v, None, None, settings)
        .swap_dims(1, 2)
        .reshape([BATCH, TOKENS, HEADS * DIM]);
    let grads = (out.clone() * probe).sum().backward();
    [values(out), values(qkv.grad(&grads).unwrap())]
}

#[test]
fn on_the_cpu_flash_is_fused_to_the_bit() {
    let device = Device::flex();
    for settings in SETTINGS {
        assert_eq!(packed(&device, flash(settings)), packed(&device, settings));
        assert_eq!(
            separate(&device, flash(settings)),
            separate(&device, settings)
        );
    }
}

#[test]
fn packed_and_separate_inputs_give_the_same_on_every_device() {
    for settings in SETTINGS {
        let expected = separate(&Device::flex(), settings);
        for (name, device) in devices_of(settings.kept == 7) {
            let results = [
                ("fused", packed(&device, settings)),
                ("flash", packed(&device, flash(settings))),
                ("separate flash", separate(&device, flash(settings))),
            ];
            for (which, actual) in results {
                for ((what, a), e) in ["out", "qkv"].iter().zip(&actual).zip(&expected) {
                    let case = format!("{name}, {which}, {} kept: {what}", settings.kept);
                    assert_close(&case, a, e, 1e-5);
                }
            }
        }
    }
}

const WINDOWS: usize = 4;

/// A bias of so many images, heads and rows, and a mask that leaves each query its first key.
fn score(bias: [usize; 3], device: &Device) -> (Tensor<4>, Tensor<4, Bool>) {
    let [images, heads, rows] = bias;
    let bias = draw(3, images * heads * rows * TOKENS, 1001, 0.004);
    let bias = tensor(&bias, [images, heads, rows, TOKENS], device);
    let hidden = draw(4, BATCH * WINDOWS * TOKENS * TOKENS, 3, 1.0);
    let hidden = hidden.iter().enumerate();
    let hidden: Vec<bool> = hidden.map(|(i, x)| i % TOKENS > 0 && *x > 0.0).collect();
    let hidden = TensorData::new(hidden, [BATCH, WINDOWS, TOKENS, TOKENS]);
    (bias, Tensor::from_data(hidden, device))
}

/// Output and gradients of `qkv` and the bias of windows, which are images of the projection, or folded into the heads of separate inputs.
fn windows(is_packed: bool, bias: [usize; 3], masked: bool, device: &Device) -> [Vec<f32>; 3] {
    let device = device.clone().autodiff();
    let numbers = |seed, width: usize| {
        let shape = [BATCH * WINDOWS, TOKENS, width];
        tensor(
            &draw(seed, shape.iter().product(), 1001, 0.002),
            shape,
            &device,
        )
    };
    let (qkv, probe) = (numbers(1, 3 * HEADS * DIM), numbers(2, HEADS * DIM));
    let qkv = qkv.require_grad();
    let (bias, mask) = score(bias, &device);
    let (bias, mask) = (bias.require_grad(), masked.then_some(mask));
    let settings = settings(7);
    let out = if is_packed {
        let packing = Packing {
            heads: HEADS,
            windows: WINDOWS,
        };
        self_attention(qkv.clone(), packing, Some(bias.clone()), mask, settings)
    } else {
        let folded = [3, BATCH, WINDOWS * HEADS, TOKENS, DIM];
        let parts = qkv
            .clone()
            .reshape([BATCH, WINDOWS, TOKENS, 3, HEADS, DIM])
            .permute([3, 0, 1, 4, 2, 5])
            .reshape(folded);
        let [q, k, v] = [0, 1, 2].map(|i| parts.clone().narrow(0, i, 1).squeeze_dim::<4>(0));
        attention(q, k, v, Some(bias.clone()), mask, settings)
            .reshape([BATCH * WINDOWS, HEADS, TOKENS, DIM])
            .swap_dims(1, 2)
            .reshape([BATCH * WINDOWS, TOKENS, HEADS * DIM])
    };
    let grads = (out.clone() * probe).sum().backward();
    let grad = |grad: Option<Tensor<4>>| values(grad.unwrap());
    [
        values(out),
        values(qkv.grad(&grads).unwrap()),
        grad(bias.grad(&grads)),
    ]
}

/// Biases of one window, of two and of all, of each image, with a row for each query or one for all.
#[test]
fn packed_windows_are_those_that_are_folded_into_the_heads() {
    for (bias, masked) in [
        ([1, HEADS, TOKENS], false),
        ([1, 2 * HEADS, TOKENS], true),
        ([1, WINDOWS * HEADS, TOKENS], false),
        ([BATCH, 2 * HEADS, TOKENS], false),
        ([1, WINDOWS * HEADS, 1], true),
    ] {
        let expected = windows(false, bias, masked, &Device::flex());
        for (name, device) in devices_of(bias[2] == 1) {
            let actual = windows(true, bias, masked, &device);
            for (what, (a, e)) in ["out", "qkv", "bias"]
                .iter()
                .zip(actual.iter().zip(&expected))
            {
                let case = format!("{name}, a bias of {bias:?}: {what}");
                assert_close(&case, a, e, 1e-5);
            }
        }
    }
}

#[test]
#[should_panic(expected = "for Packing")]
fn a_bias_that_divides_no_window_is_refused() {
    let device = Device::flex();
    let packing = Packing {
        heads: 2,
        windows: 3,
    };
    let bias = Tensor::zeros([1, 3, 4, 4], &device);
    let qkv = Tensor::zeros([3, 4, 12], &device);
    let _ = self_attention(qkv, packing, Some(bias), None, settings(4));
}

#[test]
#[should_panic(expected = "a projection of [4, 4, 12] for Packing")]
fn images_that_are_not_whole_windows_are_refused() {
    let packing = Packing {
        heads: 2,
        windows: 3,
    };
    let qkv = Tensor::zeros([4, 4, 12], &Device::flex());
    let _ = self_attention(qkv, packing, None, None, settings(4));
}

#[test]
fn a_packing_without_heads_takes_no_bias() {
    let packing = Packing {
        heads: 0,
        windows: 3,
    };
    for heads in [0, 1] {
        assert!(!packing.takes([1, heads, 4, 4]));
    }
}

#[test]
#[should_panic(expected = "keeps at least 1 key")]
fn a_query_without_a_key_is_refused() {
    let x = Tensor::<4>::zeros([1, 1, 2, 4], &Device::flex());
    let _ = attention(x.clone(), x.clone(), x, None, None, settings(0));
}

#[test]
#[should_panic(expected = "have mismatched shapes")]
fn keys_of_another_width_are_refused() {
    let device = Device::flex();
    let x = |dim| Tensor::<4>::zeros([1, 1, 2, dim], &device);
    let _ = attention(x(3), x(4), x(3), None, None, settings(7));
}
