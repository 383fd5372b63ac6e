#![expect(clippy::unwrap_used, reason = "tests")]
use burn::tensor::{Device, TensorData};
use kvt_ops::Key;

use super::*;

fn values<const D: usize>(x: Tensor<D>) -> Vec<f32> {
    x.into_data().try_into_vec().unwrap()
}

fn head(size: SecondOrderSize, device: &Device) -> SecondOrder {
    SecondOrder::new(&Init::new(device, Key::new(1)), size)
}

const SIZE: SecondOrderSize = SecondOrderSize {
    dim: 3,
    cov_dims: [2, 4],
    classes: 5,
    drop: 0.0,
};

/// The numbers of the original's `svPN` for this matrix and start.
#[test]
fn the_normalisation_is_the_originals() {
    let device = Device::flex();
    let matrix = [[1.0f32, 0.5], [0.2, -0.3], [0.4, 0.1]];
    let matrix = TensorData::new(matrix.concat(), [1, 3, 2]);
    let start = TensorData::new(vec![1.0f32, 2.0, -1.0], [3]);
    let found = power_normalised(
        Tensor::from_data(matrix, &device),
        Tensor::from_data(start, &device),
    );
    let expected = [
        1.004_373,
        0.502_180_4,
        0.200_875_4,
        -0.301_309_8,
        0.401_749_4,
        0.100_435_7,
    ];
    for (found, expected) in values(found).iter().zip(expected) {
        assert!((found - expected).abs() < 1e-6, "{found} for {expected}");
    }
}

/// For a diagonal matrix and a start along its first axis, the largest singular value is known: its root takes its
/// place, and the remainder is divided by the root.
#[test]
fn the_largest_singular_value_becomes_its_root() {
    let device = Device::flex();
    let matrix = TensorData::new(vec![9.0f32, 0.0, 0.0, 0.6], [1, 2, 2]);
    let start = TensorData::new(vec![2.0f32, 0.0], [2]);
    let found = values(power_normalised(
        Tensor::from_data(matrix, &device),
        Tensor::from_data(start, &device),
    ));
    for (found, expected) in found.iter().zip([3.0, 0.0, 0.0, 0.2]) {
        assert!((found - expected).abs() < 1e-5, "{found} for {expected}");
    }
}

/// The original divides zero by zero in the backward pass.
#[test]
fn a_covariance_of_zero_has_finite_gradients() {
    let device = Device::flex().autodiff();
    for scale in [0.0f32, 1e-20, 1e-13, 1e-6] {
        let matrix = TensorData::new(vec![scale, -scale, scale, scale / 2.0], [1, 2, 2]);
        let matrix = Tensor::<3>::from_data(matrix, &device).require_grad();
        let start = TensorData::new(vec![1.0f32, 0.5], [2]);
        let start = Tensor::<1>::from_data(start, &device).require_grad();
        let out = power_normalised(matrix.clone(), start.clone());
        let probe = TensorData::new(vec![1.0f32, -2.0, 0.5, 3.0], [1, 2, 2]);
        let out = out * Tensor::from_data(probe, &device);
        assert!(values(out.clone()).iter().all(|x| x.is_finite()), "{scale}");
        let gradients = out.sum().backward();
        let of_matrix = values(matrix.grad(&gradients).unwrap());
        let of_start = values(start.grad(&gradients).unwrap());
        let all = of_matrix.iter().chain(&of_start);
        assert!(all.clone().all(|x| x.is_finite()), "{scale}: {of_matrix:?}");
        assert!(of_matrix.iter().any(|x| *x != 0.0), "{scale}");
    }
}

/// With projections of ones and of one channel, and without norms, the covariance is computed by hand.
#[test]
fn the_covariance_is_of_what_the_projections_leave_above_zero() {
    let device = Device::flex();
    let mut head = head(
        SecondOrderSize {
            dim: 1,
            cov_dims: [2, 1],
            ..SIZE
        },
        &device,
    );
    let weight = |conv: &Conv2d, values: Vec<f32>| {
        let count = values.len();
        let weight = Tensor::from_data(TensorData::new(values, [count, 1, 1, 1]), &device);
        Conv2d::new(Param::from_tensor(weight), None, conv.settings())
    };
    let [first, second] = &mut head.representation.conv_dr_block;
    first.0 = weight(&first.0, vec![1.0, -1.0]);
    second.0 = weight(&second.0, vec![2.0]);
    let patches = TensorData::new(vec![1.0f32, -2.0, 4.0], [1, 3, 1]);
    let found = head
        .representation
        .forward(&Tensor::from_data(patches, &device), Phase::Eval);
    // [1, 0, 4] and [0, 2, 0] with [2, 0, 8], each without its mean, 5/3, 2/3 and 10/3.
    let expected = [34.0 / 3.0 - 50.0 / 9.0, -20.0 / 9.0];
    for (found, expected) in values(found).iter().zip(expected) {
        assert!((found - expected).abs() < 1e-3, "{found} for {expected}");
    }
}

/// A dead projection at the beginning of training.
#[test]
fn dead_channels_leave_finite_gradients() {
    let device = Device::flex().autodiff();
    let head = head(SIZE, &device);
    let patches = Tensor::<3>::zeros([2, 4, 3], &device).require_grad();
    let logits = head.forward(&patches, Phase::Train(Key::new(1)));
    let gradients = logits.powi_scalar(2).sum().backward();
    let gradient = values(patches.grad(&gradients).unwrap());
    assert!(gradient.iter().all(|x| x.is_finite()), "{gradient:?}");
}

#[test]
fn dropout_is_keyed_and_for_training() {
    let device = Device::flex();
    let (plain, dropping) = (
        head(SIZE, &device),
        head(SecondOrderSize { drop: 0.5, ..SIZE }, &device),
    );
    let patches = || {
        let numbers = Tensor::arange(0..2 * 4 * 3, &device).float();
        (numbers * 0.7).sin().reshape([2, 4, 3])
    };
    let run = |head: &SecondOrder, phase| values(head.forward(&patches(), phase));
    let train = |key| Phase::Train(Key::new(key));
    assert_eq!(run(&plain, Phase::Eval), run(&dropping, Phase::Eval));
    assert_eq!(run(&plain, train(1)), run(&plain, train(2)));
    assert_eq!(run(&dropping, train(1)), run(&dropping, train(1)));
    assert_ne!(run(&dropping, train(1)), run(&dropping, train(2)));
}
