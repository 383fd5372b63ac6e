//! Gradients of operations with only some tracked inputs.

use burn::module::{Param, ParamId};
use burn::nn::Linear;
use burn::tensor::{Device, Tensor};
use kvt_ops::{BatchNormInput, Gelu, batch_norm, conv2d, linear_add, mlp};
use kvt_testing::devices::{tensor, values};

fn input<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    let data: Vec<f32> = (0..shape.iter().product::<usize>())
        .map(|i| (i * 7919 % 2003) as f32 / 1000.0 - 1.0)
        .collect();
    tensor(&data, shape, device)
}

/// Inputs that are tracked get the gradients that they get where all are, and others none.
fn assert_subsets<const N: usize>(run: impl Fn([bool; N]) -> [Option<Vec<f32>>; N]) {
    let all = run([true; N]);
    assert!(all.iter().all(Option::is_some));
    for subset in 1..(1_usize << N) {
        let tracked: [bool; N] = std::array::from_fn(|i| (subset >> i) & 1 == 1);
        let expected = std::array::from_fn(|i| all[i].clone().filter(|_| tracked[i]));
        assert_eq!(run(tracked), expected, "{tracked:?}");
    }
}

#[test]
fn every_subset_of_inputs_gets_the_same_gradients() {
    let device = Device::flex().autodiff();
    assert_subsets(|tracked: [bool; 2]| {
        let x = input([2, 3, 6, 5], &device).set_require_grad(tracked[0]);
        let weight = input([3, 1, 3, 3], &device).set_require_grad(tracked[1]);
        let out = conv2d(x.clone(), weight.clone(), None, 1, 1, 3);
        let grads = (out.clone() * out).sum().backward();
        [x.grad(&grads).map(values), weight.grad(&grads).map(values)]
    });
}

#[test]
fn frozen_parts_of_a_linear_layer_and_a_residual_change_no_other_gradient() {
    for [inputs, outputs] in [[4, 5], [5, 4], [4, 4]] {
        for by_column in [false, true] {
            frozen_parts_of_a_layer(inputs, outputs, by_column);
        }
    }
}

fn frozen_parts_of_a_layer(inputs: usize, outputs: usize, by_column: bool) {
    let device = Device::flex().autodiff();
    assert_subsets(|tracked: [bool; 4]| {
        let x: Tensor<3> = input([2, 3, inputs], &device).set_require_grad(tracked[0]);
        let weight: Tensor<2> = if by_column {
            input([outputs, inputs], &device).transpose().detach()
        } else {
            input([inputs, outputs], &device)
        };
        let weight = weight.set_require_grad(tracked[1]);
        let bias: Tensor<1> = input([outputs], &device).set_require_grad(tracked[2]);
        let residual: Tensor<3> = input([2, 3, outputs], &device).set_require_grad(tracked[3]);
        let layer = Linear {
            weight: Param::initialized(ParamId::new(), weight.clone()),
            bias: Some(Param::initialized(ParamId::new(), bias.clone())),
        };
        let out = linear_add(&layer, x.clone(), residual.clone());
        let grads = (out.clone() * out).sum().backward();
        [
            x.grad(&grads).map(values),
            weight.grad(&grads).map(values),
            bias.grad(&grads).map(values),
            residual.grad(&grads).map(values),
        ]
    });
}

#[test]
fn frozen_parts_of_an_mlp_and_a_residual_change_no_other_gradient() {
    let device = Device::flex().autodiff();
    assert_subsets(|tracked: [bool; 6]| {
        let [x, residual] = [(4, 0), (3, 5)].map(|(width, i)| {
            let x: Tensor<3> = input([2, 3, width], &device);
            x.set_require_grad(tracked[i])
        });
        let weights: [Tensor<2>; 2] = [([4, 9], 1), ([9, 3], 3)]
            .map(|(shape, i)| input(shape, &device).set_require_grad(tracked[i]));
        let biases: [Tensor<1>; 2] = [([9], 2), ([3], 4)]
            .map(|(shape, i)| input(shape, &device).set_require_grad(tracked[i]));
        let layers = [0, 1].map(|i| Linear {
            weight: Param::initialized(ParamId::new(), weights[i].clone()),
            bias: Some(Param::initialized(ParamId::new(), biases[i].clone())),
        });
        let [first, second] = &layers;
        let given = Some(residual.clone().into());
        let out = mlp([first, second], Gelu::Exact, x.clone(), given);
        let grads = (out.clone() * out).sum().backward();
        [
            x.grad(&grads).map(values),
            weights[0].grad(&grads).map(values),
            biases[0].grad(&grads).map(values),
            weights[1].grad(&grads).map(values),
            biases[1].grad(&grads).map(values),
            residual.grad(&grads).map(values),
        ]
    });
}

#[test]
fn frozen_parts_of_a_batch_norm_and_a_residual_change_no_other_gradient() {
    let device = Device::flex().autodiff();
    let statistics = [0.25, 2.0].map(|x| tensor(&[x; 4], [4], &device));
    assert_subsets(|tracked: [bool; 4]| {
        let x: Tensor<3> = input([2, 4, 5], &device).set_require_grad(tracked[0]);
        let gamma: Tensor<1> = input([4], &device).set_require_grad(tracked[1]);
        let beta: Tensor<1> = input([4], &device).set_require_grad(tracked[2]);
        let residual: Tensor<3> = input([2, 4, 5], &device).set_require_grad(tracked[3]);
        let given = BatchNormInput {
            gamma: gamma.clone(),
            beta: beta.clone(),
            epsilon: 1e-5,
            residual: Some(residual.clone()),
            relu: true,
        };
        let out = batch_norm(x.clone(), given, statistics.clone());
        let grads = (out.clone() * out).sum().backward();
        [
            x.grad(&grads).map(values),
            gamma.grad(&grads).map(values),
            beta.grad(&grads).map(values),
            residual.grad(&grads).map(values),
        ]
    });
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
