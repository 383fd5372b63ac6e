//! Launches as on devices with fewer bindings, tested on this device.

use burn::tensor::DType;
use burn_cubecl::{CubeBackend, tensor::CubeTensor};

use super::*;
use crate::gpu::testing::{Gpu, device};

/// From one element to several workgroups.
const LENGTHS: [usize; GROUP] = [1000, 1, 3, 70_001, 256, 257, 33, 4096];

fn numbers(seed: usize, length: usize) -> Vec<f32> {
    let number = |i: usize| ((i * 7919 + seed * 104_729) % 2003) as f32 / 500.0;
    (0..length).map(number).collect()
}

/// Weight, gradient and moments of each parameter.
fn inputs(device: &Gpu) -> [[CubeTensor; 4]; GROUP] {
    let mut seed = 0;
    LENGTHS.map(|length| {
        [(); 4].map(|()| {
            seed += 1;
            device.tensor(&numbers(seed, length), [length])
        })
    })
}

/// A different step for each parameter.
fn step(j: usize) -> AdamWStep {
    let j = j as f64;
    AdamWStep {
        grad_scale: 0.5 + j / 10.0,
        weight_scale: 0.9 + j / 100.0,
        betas: (0.8, 0.95),
        eps: 1e-3,
        step_size: 0.1 / (1.0 + j),
        inv_sqrt_bias_correction2: 2.0 + j,
    }
}

#[track_caller]
fn assert_same(device: &Gpu, actual: [CubeTensor; 3], expected: [CubeTensor; 3], what: &str) {
    let [actual, expected] = [actual, expected].map(|all| all.map(|x| device.values(x)));
    for (actual, expected) in actual.iter().zip(&expected) {
        assert_eq!(actual.len(), expected.len());
        for (a, e) in actual.iter().zip(expected) {
            assert!(
                (a - e).abs() <= 1e-6 * e.abs().max(1.0),
                "{what}: {a} is not {e}"
            );
        }
    }
}

/// Devices with few bindings get the same update, whether it is made or not.
#[test]
fn the_chosen_update_matches_the_kernel() {
    let Some(device) = device() else { return };
    for made in [0.0, 1.0] {
        let guard = device.tensor(&[0.25, made], [2]);
        let [input, ..] = inputs(&device);
        let [expected] = update(&[input], &guard, &[step(1)], 1);
        let [input, ..] = inputs(&device);
        let actual = chosen_adamw(input, &guard, step(1));
        assert_same(&device, actual, expected, &format!("{made}"));
    }
}

/// Launches with one, some or all parameters give the same result, bit for bit.
#[test]
fn parameters_together_are_updated_as_each_by_itself() {
    let Some(device) = device() else { return };
    let steps = std::array::from_fn(step);
    for made in [0.0, 1.0] {
        let guard = device.tensor(&[0.25, made], [2]);
        let of = |at_once| {
            let outputs = update(&inputs(&device), &guard, &steps, at_once);
            outputs.map(|all| all.map(|x| device.values(x)))
        };
        let each = of(1);
        for (j, (output, length)) in each.iter().zip(LENGTHS).enumerate() {
            let [weight, grad, ..] = [1, 2, 3, 4].map(|seed| numbers(4 * j + seed, length));
            assert!(output.iter().all(|values| values.len() == length));
            assert_ne!(output[0], grad);
            assert_eq!(output[0] == weight, made == 0.0, "{j}");
        }
        let most = at_once(&guard).min(GROUP);
        for at_once in [most, 3.min(most), 2.min(most)] {
            assert!(of(at_once) == each, "{at_once} in a launch");
        }
    }
}

/// Small integers, so that every order of summation gives the same sum.
#[test]
fn squares_are_added_in_any_number_of_launches() {
    let Some(device) = device() else { return };
    let whole = |length: usize| -> Vec<f32> { (0..length).map(|i| (i % 7) as f32 - 3.0).collect() };
    let tensors = LENGTHS.map(|length| device.tensor(&whole(length), [length]));
    let squares: f32 = LENGTHS
        .into_iter()
        .flat_map(|length| whole(length).into_iter().map(|x| x * x))
        .sum();
    for (bindings, count) in [(32, 100), (6, 1), (3, 17)] {
        let parts = device.tensor(&vec![1.0; count], [count]);
        let parts = sums::add(parts, &tensors, bindings);
        assert_eq!(parts.dtype, DType::F32);
        assert_eq!(device.values(parts.clone()).len(), count);
        let sum = device.values(CubeBackend::sum_of_parts(parts));
        assert_eq!(sum, [squares + count as f32], "{bindings} bindings");
    }
}
