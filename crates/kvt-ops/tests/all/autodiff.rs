//! Gradients of operations with only some tracked inputs.

use burn::tensor::{Device, Tensor};
use kvt_ops::conv2d;
use kvt_testing::devices::{tensor, values};

fn input<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    let data: Vec<f32> = (0..shape.iter().product::<usize>())
        .map(|i| (i * 7919 % 2003) as f32 / 1000.0 - 1.0)
        .collect();
    tensor(&data, shape, device)
}

#[test]
fn every_subset_of_inputs_gets_the_same_gradients() {
    let device = Device::flex().autodiff();
    let run = |tracked: [bool; 2]| {
        let x = input([2, 3, 6, 5], &device).set_require_grad(tracked[0]);
        let weight = input([3, 1, 3, 3], &device).set_require_grad(tracked[1]);
        let out = conv2d(x.clone(), weight.clone(), None, 1, 1, 3);
        let grads = (out.clone() * out).sum().backward();
        [x.grad(&grads).map(values), weight.grad(&grads).map(values)]
    };
    let [x, weight] = run([true, true]);
    assert!(x.is_some() && weight.is_some());
    assert_eq!(run([true, false]), [x, None]);
    assert_eq!(run([false, true]), [None, weight]);
}

#[test]
fn an_operation_without_tracked_inputs_is_not_tracked() {
    let device = Device::flex().autodiff();
    let weight = input([2, 1, 3, 3], &device);
    let out = conv2d(input([1, 2, 4, 4], &device), weight, None, 1, 1, 2);
    let x = input([1, 2, 4, 4], &device).require_grad();
    let grads = (x.clone() * out.clone()).sum().backward();
    assert_eq!(values(x.grad(&grads).unwrap()), values(out.clone()));
    assert!(out.grad(&grads).is_none());
}
