//! AdamW against its definition (Loshchilov & Hutter, 2019, algorithm 2) in f64.

use burn::tensor::Tensor;
use kvt_ops::{AdamWStep, adamw, square_sum};

use crate::devices::{assert_close, devices, tensor, values};

const LENGTH: usize = 70_001;
const BETAS: (f64, f64) = (0.9, 0.99);
const EPS: f64 = 1e-3;

fn numbers(seed: usize, length: usize) -> Vec<f32> {
    (0..length)
        .map(|i| ((i * 7919 + seed * 104_729) % 2003) as f32 / 500.0 - 2.0)
        .collect()
}

/// Weight and moments after `steps` steps, a number at a time.
fn defined(weight: &[f32], grads: &[Vec<f32>], factor: f64, lr: f64, decay: f64) -> [Vec<f32>; 3] {
    let mut results = [(); 3].map(|()| Vec::with_capacity(weight.len()));
    for (i, weight) in weight.iter().enumerate() {
        let (mut weight, mut first, mut second) = (f64::from(*weight), 0.0, 0.0);
        for (step, grad) in grads.iter().enumerate() {
            let step = (step + 1) as i32;
            let grad = factor * f64::from(grad[i]);
            weight -= lr * decay * weight;
            first = BETAS.0 * first + (1.0 - BETAS.0) * grad;
            second = BETAS.1 * second + (1.0 - BETAS.1) * grad * grad;
            let mean = first / (1.0 - BETAS.0.powi(step));
            let square = second / (1.0 - BETAS.1.powi(step));
            weight -= lr * mean / (square.sqrt() + EPS);
        }
        for (result, x) in results.iter_mut().zip([weight, first, second]) {
            result.push(x as f32);
        }
    }
    results
}

#[test]
fn three_steps_of_adamw_are_its_definition() {
    let (factor, lr, decay) = (0.7, 1e-2, 0.05);
    let start = numbers(1, LENGTH);
    let grads: Vec<Vec<f32>> = (2..5).map(|seed| numbers(seed, LENGTH)).collect();
    let expected = defined(&start, &grads, factor, lr, decay);
    for (name, device) in devices() {
        let mut weight: Tensor<1> = tensor(&start, [LENGTH], &device);
        let mut moments = [weight.zeros_like(), weight.zeros_like()];
        for (step, grad) in grads.iter().enumerate() {
            let step = (step + 1) as i32;
            let grad = tensor(grad, [LENGTH], &device);
            let step = AdamWStep {
                factor,
                decay: 1.0 - lr * decay,
                betas: BETAS,
                eps: EPS,
                size: lr / (1.0 - BETAS.0.powi(step)),
                correction: 1.0 / (1.0 - BETAS.1.powi(step)).sqrt(),
            };
            // The old ones stay what they are, as a checkpoint that is being written needs.
            let before = values(weight.clone());
            let (new, new_moments) = adamw(weight.clone(), grad, moments, step);
            assert_eq!(values(weight), before, "{name}");
            (weight, moments) = (new, new_moments);
        }
        let [first, second] = moments;
        for (what, actual, expected) in [
            ("weight", weight, &expected[0]),
            ("first moment", first, &expected[1]),
            ("second moment", second, &expected[2]),
        ] {
            assert_close(&format!("{name}: {what}"), &values(actual), expected, 1e-6);
        }
    }
}

/// Lengths that one cube sums, and several; and one after which a software driver that ends long loops
/// without a word has lost numbers.
#[test]
fn the_sum_of_the_squares_is_that_of_the_numbers() {
    for length in [1, 3, 4096, 4097, 70_001, 500_000] {
        let data = numbers(7, length);
        let expected: f64 = data.iter().map(|x| f64::from(*x).powi(2)).sum();
        for (name, device) in devices() {
            let sum = || values(square_sum(tensor(&data, [length], &device)));
            let actual = sum();
            assert_close(
                &format!("{name} {length}"),
                &actual,
                &[expected as f32],
                1e-6,
            );
            assert_eq!(actual, sum(), "{name} {length}: to the bit");
        }
    }
}
