//! Operations on half types: the types of outputs and gradients, and their values compared with the same operations in f32
//! on the rounded inputs.

use burn::module::{Module, Param};
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{DType, Device, Tensor};
use kvt_ops::{
    AttentionSettings, Packing, Residual, attention, gelu, in_type, linear, linear_add, quick_gelu,
    self_attention, widened,
};
use kvt_testing::devices::{assert_close, devices_of, tensor, values};
use kvt_testing::naive::draw;

/// [`devices_of`] and the half types that they support, with the rounding error of the type.
fn cases(few: bool) -> Vec<(&'static str, Device, DType, f32)> {
    let mut cases = Vec::new();
    for (name, device) in devices_of(few) {
        for (dtype, error) in [(DType::BF16, 8e-3), (DType::F16, 1e-3)] {
            // WGSL has no bf16.
            if name == "wgpu" && dtype == DType::BF16 {
                kvt_testing::skipped("the GPU adapter has no BF16");
                continue;
            }
            cases.push((name, device.clone().autodiff(), dtype, error));
        }
    }
    cases
}

fn numbers<const D: usize>(seed: u64, shape: [usize; D], device: &Device) -> Tensor<D> {
    let data = draw(seed, shape.iter().product(), 1001, 0.002);
    tensor(&data, shape, device)
}

/// A tensor rounded to a half type, in f32.
fn rounded<const D: usize>(x: Tensor<D>, dtype: DType) -> Tensor<D> {
    x.cast(dtype).cast(DType::F32)
}

#[test]
fn a_cast_rounds_and_its_gradient_has_the_type_of_the_input() {
    for (name, device, dtype, _) in cases(true) {
        let x = numbers(1, [3, 7000], &device).require_grad();
        let half = in_type(x.clone().transpose(), dtype);
        assert_eq!(half.dtype(), dtype);
        assert_eq!(
            values(half.clone()),
            values(rounded(x.clone().transpose(), dtype))
        );
        let wide = in_type(half, DType::F32);
        assert_eq!(wide.dtype(), DType::F32);
        let grads = (wide * numbers(2, [7000, 3], &device)).sum().backward();
        let grad = x.grad(&grads).unwrap();
        assert_eq!(grad.dtype(), DType::F32, "{name}");
        let expected = rounded(numbers(2, [7000, 3], &device), dtype).transpose();
        assert_eq!(values(grad), values(expected), "{name} {dtype:?}");
    }
}

/// Output, and gradients of x, weight and bias; `x` has the given type in the layer. A residual is f32.
fn run(
    layer: &Linear,
    x: &Tensor<3>,
    dtype: DType,
    residual: Option<&Residual<3>>,
) -> [Vec<f32>; 4] {
    let x = x.clone().detach().require_grad();
    let input = in_type(x.clone(), dtype);
    let out = match residual {
        Some(residual) => linear_add(layer, input, residual.clone()),
        None => linear(layer, input),
    };
    let own = residual.map_or(dtype, |_| DType::F32);
    assert_eq!(out.dtype(), own, "the output");
    let probe = numbers(3, out.dims(), &out.device());
    let grads = (in_type(out.clone(), DType::F32) * probe).sum().backward();
    let weight = layer.weight.val().grad(&grads).unwrap();
    let bias = layer.bias.as_ref().unwrap().val().grad(&grads).unwrap();
    assert_eq!([weight.dtype(), bias.dtype()], [DType::F32; 2]);
    [
        values(out),
        values(x.grad(&grads).unwrap()),
        values(weight),
        values(bias),
    ]
}

/// What a layer is added to. A GPU, which composes it of Burn's operations, runs one of them in each test.
const RESIDUALS: [&str; 3] = ["none", "whole", "scaled"];

fn residual(which: &str, stream: Tensor<3>) -> Option<Residual<3>> {
    let scale = tensor(&[0.0, 1.25], [2], &stream.device());
    match which {
        "none" => None,
        "whole" => Some(stream.into()),
        _ => Some(Residual::scaled(stream, scale)),
    }
}

/// A layer with weights in f32, by itself and added to a residual in f32, whole and scaled.
#[test]
fn a_linear_layer_takes_half_types_and_keeps_the_type_of_its_weights() {
    for which in RESIDUALS {
        for (name, device, dtype, error) in cases(which == "scaled") {
            // On a GPU the sizes of other tests, which share its kernels.
            let [tokens, inputs, outputs] = match name {
                "flex" => [61, 33, 47],
                _ => [37, 24, 40],
            };
            let layer = LinearConfig::new(inputs, outputs).init(&device);
            let weight = rounded(layer.weight.val(), dtype).detach().require_grad();
            let exact = Linear {
                weight: Param::from_tensor(weight),
                bias: layer.bias.clone(),
            };
            let x = rounded(numbers(1, [2, tokens, inputs], &device), dtype);
            let stream = numbers(2, [2, tokens, outputs], &device);
            let residual = residual(which, stream);
            let actual = run(&layer, &x, dtype, residual.as_ref());
            let expected = run(&exact, &x, DType::F32, residual.as_ref());
            for (number, (actual, expected)) in actual.iter().zip(&expected).enumerate() {
                let what = format!("{name} {dtype:?}, {which}, result {number}");
                assert_close(&what, actual, expected, error);
            }
        }
    }
}

/// A layer that is not trained keeps no input, and passes the same gradient on.
#[test]
fn a_frozen_layer_gives_its_input_the_same_gradient() {
    let single = |few| {
        let devices = devices_of(few).into_iter();
        devices.map(|(name, device)| (name, device.autodiff(), DType::F32, 1e-5))
    };
    for which in RESIDUALS {
        let few = which == "none";
        for (name, device, dtype, error) in cases(few).into_iter().chain(single(few)) {
            let fresh = LinearConfig::new(24, 40).init(&device);
            let copy = || Linear {
                weight: Param::from_tensor(fresh.weight.val().detach()),
                bias: fresh
                    .bias
                    .as_ref()
                    .map(|bias| Param::from_tensor(bias.val().detach())),
            };
            let (layer, frozen) = (copy(), copy().no_grad());
            let residual = residual(which, numbers(4, [2, 37, 40], &device));
            let of_x = |layer: &Linear| {
                let x = numbers(1, [2, 37, 24], &device).require_grad();
                let input = in_type(x.clone(), dtype);
                let out: Tensor<3> = match &residual {
                    Some(residual) => linear_add(layer, input, Residual::clone(residual)),
                    None => linear(layer, input),
                };
                let probe = in_type(numbers(3, [2, 37, 40], &device), out.dtype());
                let grads = (out * probe).sum().backward();
                let has_own = layer.weight.val().grad(&grads).is_some();
                (values(x.grad(&grads).unwrap()), has_own)
            };
            let (expected, of_trained) = of_x(&layer);
            let (actual, of_frozen) = of_x(&frozen);
            assert_eq!((of_trained, of_frozen), (true, false), "{name} {dtype:?}");
            assert!(expected.iter().any(|x| *x != 0.0));
            let what = format!("{name} {dtype:?} {which}");
            assert_close(&what, &actual, &expected, error);
        }
    }
}

/// In f16 their squares are infinite.
#[test]
fn gelu_of_large_numbers_is_a_line_or_zero() {
    let sizes: [f32; 4] = [300.0, -300.0, 60_000.0, -60_000.0];
    for (name, device, dtype, _) in cases(true) {
        for curve in [gelu::<1>, quick_gelu::<1>] {
            let x = tensor(&sizes, [4], &device).cast(dtype);
            let x = x.detach().require_grad();
            let y = curve(x.clone());
            let grads = widened(y.clone()).sum().backward();
            let slope = values(x.grad(&grads).unwrap());
            // bf16 rounds 60,000.
            let expected: Vec<f32> = values(x).iter().map(|x| x.max(0.0)).collect();
            let what = format!("{name} {dtype:?}");
            assert_close(&what, &values(y), &expected, 1e-6);
            assert_close(&what, &slope, &[1.0, 0.0, 1.0, 0.0], 1e-6);
        }
    }
}

#[test]
fn gelu_of_half_types_is_that_of_f32_rounded() {
    for (name, device, dtype, error) in cases(true) {
        let x = rounded(numbers(1, [5, 7001], &device) * 3.0, dtype);
        let run = |dtype| {
            let x = x.clone().detach().require_grad();
            let out = gelu(in_type(x.clone().transpose(), dtype));
            assert_eq!(out.dtype(), dtype);
            let probe = numbers(2, [7001, 5], &device);
            let grads = (in_type(out.clone(), DType::F32) * probe).sum().backward();
            [values(out), values(x.grad(&grads).unwrap())]
        };
        let (actual, expected) = (run(dtype), run(DType::F32));
        for (actual, expected) in actual.iter().zip(&expected) {
            assert_close(&format!("{name} {dtype:?}"), actual, expected, error);
        }
    }
}

/// Dense, and with the largest scores only: the products of bf16 numbers are exact in f32 too, so both select the same keys.
#[test]
fn attention_of_half_types_is_near_that_of_f32() {
    for kept in [70, 20, 9] {
        // Whether the CPU skips dropped keys depends on their number, but not a kernel of a GPU.
        for (name, device, dtype, error) in cases(kept == 20) {
            let settings = AttentionSettings {
                scale: 0.4,
                kept,
                flash: false,
            };
            let qkv = rounded(numbers(1, [2, 70, 3 * 48], &device), dtype);
            let run = |dtype| {
                let qkv = qkv.clone().detach().require_grad();
                let packing = Packing {
                    heads: 3,
                    windows: 1,
                };
                let packed = in_type(qkv.clone(), dtype);
                let out = self_attention(packed, packing, None, None, settings);
                assert_eq!(out.dtype(), dtype);
                let probe = numbers(2, [2, 70, 48], &device);
                let grads = (in_type(out.clone(), DType::F32) * probe).sum().backward();
                [values(out), values(qkv.grad(&grads).unwrap())]
            };
            let (actual, expected) = (run(dtype), run(DType::F32));
            for (actual, expected) in actual.iter().zip(&expected) {
                assert_close(
                    &format!("{name} {dtype:?} {kept}"),
                    actual,
                    expected,
                    2.0 * error,
                );
            }
        }
    }
}

/// Where a CPU multiplies bf16 numbers, it does so only without a bias.
#[test]
fn attention_of_half_types_adds_its_bias() {
    for (name, device, dtype, error) in cases(true) {
        let settings = AttentionSettings {
            scale: 0.4,
            kept: 70,
            flash: false,
        };
        let qkv = rounded(numbers(1, [3, 2, 3, 70, 16], &device), dtype);
        let bias = rounded(numbers(2, [1, 3, 70, 70], &device), dtype);
        let run = |dtype| {
            let part = |number| {
                let part = qkv.clone().narrow(0, number, 1);
                in_type(part.squeeze_dim::<4>(0), dtype)
            };
            let [q, k, v] = [0, 1, 2].map(part);
            values(attention(q, k, v, Some(bias.clone()), None, settings))
        };
        let case = format!("{name} {dtype:?}");
        assert_close(&case, &run(dtype), &run(DType::F32), 2.0 * error);
    }
}
