//! GELU against its definition, composed of tensor operations with gradients from autodiff.

use std::f64::consts::FRAC_1_SQRT_2;

use burn::tensor::{Tensor, activation};
use kvt_ops::{gelu, quick_gelu};

use kvt_testing::devices::{assert_close, devices, tensor, values};

#[test]
fn forward_and_gradient_match_the_definition() {
    let data: Vec<f32> = (0..40_000)
        .map(|i| (i as f32 - 20_000.0) / 2500.0)
        .collect();
    for (name, device) in devices() {
        let device = device.autodiff();
        let run = |gelu: &dyn Fn(Tensor<2>) -> Tensor<2>| {
            let x = tensor(&data, [200, 200], &device).require_grad();
            // A permuted view, and a non-constant gradient.
            let y = gelu(x.clone().transpose());
            let grads = (y.clone() * y.clone()).sum().backward();
            (values(y), values(x.grad(&grads).unwrap()))
        };
        let exact = [
            run(&|x| gelu(x)),
            run(&|x| x.clone() * 0.5 * ((x * FRAC_1_SQRT_2).erf() + 1.0)),
        ];
        let quick = [
            run(&|x| quick_gelu(x)),
            run(&|x| x.clone() * activation::sigmoid(x * 1.702)),
        ];
        for [ours, defined] in [exact, quick] {
            assert_close(name, &ours.0, &defined.0, 1e-6);
            assert_close(name, &ours.1, &defined.1, 1e-6);
        }
    }
}

/// x, gelu(x) and its derivative, from the closed form in double precision.
const TABLE: [[f32; 3]; 5] = [
    [-3.0, -0.004_049_694, -0.011_945_647],
    [-0.5, -0.154_268_77, 0.132_504_88],
    [0.0, 0.0, 0.5],
    [0.75, 0.580_029_5, 0.999_225_74],
    [2.0, 1.954_499_7, 1.085_231_8],
];

/// On GPU runtimes, Burn uses the gradient of the tanh approximation, whose error is 1e-3.
#[test]
fn the_gradient_is_exact_on_every_device() {
    for (name, device) in devices() {
        let x = TABLE.map(|row| row[0]);
        let x = tensor(&x, [5], &device.autodiff()).require_grad();
        let y = gelu(x.clone());
        let grads = y.clone().sum().backward();
        let grad = values(x.grad(&grads).unwrap());
        for ((row, y), grad) in TABLE.iter().zip(values(y)).zip(grad) {
            assert!((y - row[1]).abs() < 2e-6, "{name}: gelu({}) = {y}", row[0]);
            assert!(
                (grad - row[2]).abs() < 2e-6,
                "{name}: gelu'({}) = {grad}",
                row[0]
            );
        }
    }
}

#[test]
fn a_nan_is_not_hidden() {
    let device = burn::tensor::Device::flex().autodiff();
    for curve in [gelu::<1>, quick_gelu::<1>] {
        let x = tensor(&[1.0, f32::NAN], [2], &device).require_grad();
        let y = curve(x.clone());
        let grads = y.clone().sum().backward();
        for of_all in [values(y), values(x.grad(&grads).unwrap())] {
            let is_nan: Vec<_> = of_all.iter().map(|x| x.is_nan()).collect();
            assert_eq!(is_nan, [false, true]);
        }
    }
}
