//! Flash attention and packed projections against the fused attention.

use burn::tensor::{Device, Tensor};
use kvt_ops::{AttentionSettings, attention, self_attention};
use kvt_testing::devices::{assert_close, devices_of, tensor, values};
use kvt_testing::naive::draw;

const BATCH: usize = 2;
const HEADS: usize = 3;
const TOKENS: usize = 21;
const DIM: usize = 16;
/// Of 7 keys the CPU computes all products, of 4 only those of the kept keys.
const SETTINGS: [AttentionSettings; 2] = [settings(7), settings(4)];

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
    let out = self_attention(qkv.clone(), HEADS, settings);
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
