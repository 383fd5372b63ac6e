//! Operations with weights in f32 and activations in a half type: a product has the type of its activations.

use burn::module::Param;
use burn::nn::{LayerNormConfig, Linear, LinearConfig};
use burn::tensor::{DType, Device, Tensor};
use kvt_ops::{
    Residual, conv2d, gelu, in_type, layer_norm, linear, linear_add, linear_with, widened,
};
use kvt_testing::devices::{assert_close, tensor, values};

const HALF: [(DType, f32); 2] = [(DType::BF16, 1.0 / 256.0), (DType::F16, 1.0 / 2048.0)];

fn input<const D: usize>(shape: [usize; D], seed: usize, device: &Device) -> Tensor<D> {
    let data: Vec<f32> = (0..shape.iter().product())
        .map(|i: usize| ((i * 7919 + seed * 104_729) % 2003) as f32 / 1001.0 - 1.0)
        .collect();
    tensor(&data, shape, device)
}

/// A tensor rounded to a half type, in f32.
fn rounded<const D: usize>(x: Tensor<D>, dtype: DType) -> Tensor<D> {
    x.cast(dtype).cast(DType::F32)
}

fn layer(bias: bool, device: &Device) -> Linear {
    let mut layer = LinearConfig::new(19, 7).with_bias(bias).init(device);
    layer.weight = Param::from_tensor(input([19, 7], 2, device).require_grad());
    layer.bias = bias.then(|| Param::from_tensor(input([7], 3, device).require_grad()));
    layer
}

/// Output and gradients are those of the rounded numbers in f32, rounded once more; the gradients of the weights are f32.
#[test]
fn a_product_is_in_the_type_of_its_activations() {
    let device = Device::flex().autodiff();
    for (dtype, unit) in HALF {
        for bias in [false, true] {
            let what = format!("{dtype:?}, bias: {bias}");
            let layer = layer(bias, &device);
            let probe = rounded(input([5, 4, 7], 9, &device), dtype);
            let x = rounded(input([5, 4, 19], 1, &device), dtype);

            let half = x.clone().cast(dtype).detach().require_grad();
            let out = linear(&layer, half.clone());
            assert_eq!(out.dtype(), dtype, "{what}");
            let grads = (widened(out.clone()) * probe.clone()).sum().backward();

            let weight = rounded(layer.weight.val(), dtype).detach().require_grad();
            let offset = layer
                .bias
                .as_ref()
                .map(|bias| rounded(bias.val(), dtype))
                .map(|bias| bias.detach().require_grad());
            let wide = x.detach().require_grad();
            let product = wide.clone().matmul(weight.clone().unsqueeze());
            let expected = match &offset {
                Some(bias) => product + bias.clone().reshape([1, 1, 7]),
                None => product,
            };
            assert_close(
                &what,
                &values(widened(out)),
                &values(expected.clone()),
                2.0 * unit,
            );
            let expected = (expected * probe).sum().backward();

            let x_grad = half.grad(&grads).unwrap();
            assert_eq!(x_grad.dtype(), dtype, "{what}");
            let wide = values(wide.grad(&expected).unwrap());
            assert_close(&what, &values(widened(x_grad)), &wide, 2.0 * unit);
            let of_weight = layer.weight.val().grad(&grads).unwrap();
            assert_eq!(of_weight.dtype(), DType::F32, "{what}");
            let wide = values(weight.grad(&expected).unwrap());
            assert_close(&what, &values(of_weight), &wide, 2.0 * unit);
            if let (Some(bias), Some(offset)) = (&layer.bias, &offset) {
                let of_bias = bias.val().grad(&grads).unwrap();
                assert_eq!(of_bias.dtype(), DType::F32, "{what}");
                let wide = values(offset.grad(&expected).unwrap());
                assert_close(&what, &values(of_bias), &wide, 2.0 * unit);
            }
        }
    }
}

/// When the output of a layer is added to an f32 stream, the output is rounded first, and the stream is not.
#[test]
fn a_stream_keeps_its_type() {
    let device = Device::flex().autodiff();
    for (dtype, _) in HALF {
        for bias in [false, true] {
            let layer = layer(bias, &device);
            let x = input([5, 4, 19], 1, &device).cast(dtype);
            let stream = input([5, 4, 7], 4, &device) * 1000.0;
            let out = linear_add(&layer, x.clone(), stream.clone());
            assert_eq!(out.dtype(), DType::F32);
            let expected = stream.clone() + linear(&layer, x.clone()).cast(DType::F32);
            assert_eq!(values(out), values(expected));
            // A scaled branch: scaled in f32, after rounding.
            let scale = tensor(&[0.0, 1.25, 1.25, 0.5, 3.0], [5], &device);
            let residual = Residual::scaled(stream.clone(), scale.clone());
            let x = x.detach().require_grad();
            let out = linear_add(&layer, x.clone(), residual);
            assert_eq!(out.dtype(), DType::F32);
            let wide = linear(&layer, x.clone()).cast(DType::F32);
            let expected = stream.clone() + wide * scale.reshape([5, 1, 1]);
            assert_eq!(values(out.clone()), values(expected.clone()));
            let [of_x, wide] = [out, expected].map(|out| {
                let grad = x.grad(&out.sum().backward()).unwrap();
                assert_eq!(grad.dtype(), dtype);
                values(widened(grad))
            });
            assert_eq!(of_x, wide);
            // A stream in the type of the product: the product is rounded before the sum, and the sum once more.
            let stream = stream.cast(dtype);
            let out = linear_add(&layer, x.clone(), stream.clone());
            assert_eq!(out.dtype(), dtype);
            let expected = stream + linear(&layer, x);
            assert_eq!(values(widened(out)), values(widened(expected)));
        }
    }
}

#[test]
fn weights_of_no_layer_are_cast_as_well() {
    let device = Device::flex().autodiff();
    for (dtype, _) in HALF {
        for bias in [false, true] {
            let layer = layer(bias, &device);
            let x = input([5, 4, 19], 1, &device).cast(dtype);
            let offset = layer.bias.as_ref().map(Param::val);
            let out = linear_with(x.clone(), layer.weight.val(), offset);
            assert_eq!(out.dtype(), dtype);
            assert_eq!(values(widened(out)), values(widened(linear(&layer, x))));
        }
    }
}

/// Norms return f32 for half types, since their weights are f32.
#[test]
fn a_layer_norm_in_f32_gives_f32() {
    let device = Device::flex().autodiff();
    for (dtype, _) in HALF {
        let layer = LayerNormConfig::new(19).with_epsilon(1e-6).init(&device);
        let x = input([5, 4, 19], 1, &device)
            .cast(dtype)
            .detach()
            .require_grad();
        let out = layer_norm(&layer, x.clone(), 1e-6);
        assert_eq!(out.dtype(), DType::F32);
        let expected = layer_norm(&layer, x.clone().cast(DType::F32), 1e-6);
        assert_eq!(values(out.clone()), values(expected));
        let grads = (out * input([5, 4, 19], 2, &device)).sum().backward();
        assert_eq!(x.grad(&grads).unwrap().dtype(), dtype);
        assert_eq!(layer.gamma.val().grad(&grads).unwrap().dtype(), DType::F32);
    }
}

/// Convolutions on the CPU round their output once, in the forward and the backward pass.
#[test]
fn convolutions_are_those_of_rounded_numbers() {
    let device = Device::flex().autodiff();
    type Convolution = fn(Tensor<4>, Tensor<4>) -> Tensor<4>;
    let cases: [(&str, [usize; 4], Convolution); 3] = [
        ("conv", [6, 4, 3, 3], |x, w| conv2d(x, w, None, 2, 1, 1)),
        ("groups", [6, 2, 3, 3], |x, w| conv2d(x, w, None, 1, 1, 2)),
        ("depthwise", [8, 1, 3, 3], |x, w| {
            conv2d(x, w, None, 1, 1, 4)
        }),
    ];
    for (dtype, _) in HALF {
        for (name, shape, convolve) in &cases {
            let run = |dtype: DType, weight: Tensor<4>| {
                let x = input([2, 4, 7, 6], 1, &device)
                    .cast(dtype)
                    .detach()
                    .require_grad();
                let weight = weight.cast(dtype).detach().require_grad();
                let out = convolve(x.clone(), weight.clone());
                assert_eq!(out.dtype(), dtype, "{name}");
                let probe = in_type(input(out.dims(), 4, &device), dtype);
                let grads = (out.clone() * probe).sum().backward();
                let [of_x, of_weight] = [&x, &weight].map(|leaf| leaf.grad(&grads).unwrap());
                assert_eq!(of_weight.dtype(), dtype, "{name}");
                [out, of_x, of_weight].map(|x| values(widened(x)))
            };
            let weight = input(*shape, 2, &device);
            let found = run(dtype, weight.clone());
            // With rounded images in f32.
            let x = rounded(input([2, 4, 7, 6], 1, &device), dtype)
                .detach()
                .require_grad();
            let weight = rounded(weight, dtype).detach().require_grad();
            let out = convolve(x.clone(), weight.clone());
            let probe = rounded(input(out.dims(), 4, &device), dtype);
            let grads = (out.clone() * probe).sum().backward();
            let expected = [out, x.grad(&grads).unwrap(), weight.grad(&grads).unwrap()];
            for (found, expected) in found.iter().zip(expected) {
                let expected = values(rounded(expected, dtype));
                assert_eq!(*found, expected, "{name} {dtype:?}");
            }
        }
    }
}

/// At -3 the distribution function is 0.00135, which half types lose if `1 + erf` is rounded.
#[test]
fn gelu_of_half_types_is_rounded_once() {
    let device = Device::flex();
    for (dtype, unit) in HALF {
        let x = tensor(&[-3.0, -1.0, 0.5, 2.0], [4], &device);
        let out = gelu(x.cast(dtype));
        assert_eq!(out.dtype(), dtype);
        let expected = [-0.004_049_69, -0.158_655_25, 0.345_731_23, 1.954_499_7];
        for (found, expected) in values(widened(out)).iter().zip(expected) {
            let error = (found - expected).abs() / expected.abs();
            assert!(error < unit, "{dtype:?}: {found}, not {expected}");
        }
    }
}

/// Burn's casts, on all threads: for a view, and for more numbers than a thread takes at a time. The gradient is cast back.
#[test]
fn casts_are_those_of_burn() {
    let device = Device::flex().autodiff();
    for (dtype, _) in HALF {
        let x = input([130, 257], 1, &device).require_grad();
        let half = in_type(x.clone().swap_dims(0, 1), dtype);
        assert_eq!(half.dtype(), dtype);
        let expected = x.clone().detach().swap_dims(0, 1).cast(dtype);
        assert_eq!(
            half.clone().detach().into_data().as_bytes(),
            expected.clone().into_data().as_bytes()
        );
        let wide = in_type(half.swap_dims(0, 1), DType::F32);
        let expected = values(expected.swap_dims(0, 1).cast(DType::F32));
        assert_eq!(values(wide.clone()), expected);
        let probe = input([130, 257], 2, &device);
        let grads = (wide * probe.clone()).sum().backward();
        let grad = x.grad(&grads).unwrap();
        assert_eq!(grad.dtype(), DType::F32);
        assert_eq!(values(grad), values(rounded(probe, dtype)));
    }
}
