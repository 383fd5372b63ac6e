//! AdamW against its definition (Loshchilov & Hutter, 2019, algorithm 2) in f64.

use burn::tensor::{DType, Tensor};
use kvt_ops::{AdamWInput, AdamWStep, Guard, adamw, square_sum, square_sums};

use kvt_testing::devices::{assert_close, devices, devices_of, tensor, values};

const LENGTH: usize = 70_001;
const BETAS: (f64, f64) = (0.9, 0.99);
const EPS: f64 = 1e-3;

fn numbers(seed: usize, length: usize) -> Vec<f32> {
    (0..length)
        .map(|i| ((i * 7919 + seed * 104_729) % 2003) as f32 / 500.0 - 2.0)
        .collect()
}

/// The update of one parameter.
fn update(
    weight: Tensor<1>,
    grad: Tensor<1>,
    moments: [Tensor<1>; 2],
    guard: Option<&Guard>,
    step: AdamWStep,
) -> (Tensor<1>, [Tensor<1>; 2]) {
    let input = AdamWInput {
        weight,
        grad,
        moments,
        step,
    };
    adamw(vec![input], guard).pop().unwrap()
}

/// Weight and moments after all steps, number by number.
fn defined(
    weight: &[f32],
    grads: &[Vec<f32>],
    grad_scale: f64,
    lr: f64,
    decay: f64,
) -> [Vec<f32>; 3] {
    let mut results = [(); 3].map(|()| Vec::with_capacity(weight.len()));
    for (i, weight) in weight.iter().enumerate() {
        let (mut weight, mut exp_avg, mut exp_avg_sq) = (f64::from(*weight), 0.0, 0.0);
        for (step, grad) in grads.iter().enumerate() {
            let step = (step + 1) as i32;
            let grad = grad_scale * f64::from(grad[i]);
            weight -= lr * decay * weight;
            exp_avg = BETAS.0 * exp_avg + (1.0 - BETAS.0) * grad;
            exp_avg_sq = BETAS.1 * exp_avg_sq + (1.0 - BETAS.1) * grad * grad;
            let mean = exp_avg / (1.0 - BETAS.0.powi(step));
            let square = exp_avg_sq / (1.0 - BETAS.1.powi(step));
            weight -= lr * mean / (square.sqrt() + EPS);
        }
        for (result, x) in results.iter_mut().zip([weight, exp_avg, exp_avg_sq]) {
            result.push(x as f32);
        }
    }
    results
}

#[test]
fn three_steps_of_adamw_match_the_definition() {
    let (grad_scale, lr, decay) = (0.7, 1e-2, 0.05);
    let start = numbers(1, LENGTH);
    let grads: Vec<Vec<f32>> = (2..5).map(|seed| numbers(seed, LENGTH)).collect();
    let expected = defined(&start, &grads, grad_scale, lr, decay);
    for (name, device) in devices() {
        let mut weight: Tensor<1> = tensor(&start, [LENGTH], &device);
        let mut moments = [weight.zeros_like(), weight.zeros_like()];
        for (step, grad) in grads.iter().enumerate() {
            let step = (step + 1) as i32;
            let grad = tensor(grad, [LENGTH], &device);
            let step = AdamWStep {
                grad_scale,
                weight_scale: 1.0 - lr * decay,
                betas: BETAS,
                eps: EPS,
                step_size: lr / (1.0 - BETAS.0.powi(step)),
                inv_sqrt_bias_correction2: 1.0 / (1.0 - BETAS.1.powi(step)).sqrt(),
            };
            // The old tensors keep their values: a checkpoint might be reading them.
            let before = values(weight.clone());
            let (new, new_moments) = update(weight.clone(), grad, moments, None, step);
            assert_eq!(values(weight), before, "{name}");
            (weight, moments) = (new, new_moments);
        }
        let [exp_avg, exp_avg_sq] = moments;
        for (what, actual, expected) in [
            ("weight", weight, &expected[0]),
            ("first moment", exp_avg, &expected[1]),
            ("second moment", exp_avg_sq, &expected[2]),
        ] {
            assert_close(&format!("{name}: {what}"), &values(actual), expected, 1e-6);
        }
    }
}

/// Lengths for one and for several workgroups, and one so long that numbers would be lost on a software driver that
/// silently ends long loops.
#[test]
fn the_sum_of_squares_matches_the_definition() {
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

/// Computed by hand: a norm of 4 with limits of 2 and 5 and without a limit, and a norm that PyTorch's 1e-6 halves. A loss
/// or a norm that is not finite leaves everything bit-identical, and so does every later update.
#[test]
fn a_guard_clips_and_refuses() {
    const STEP: AdamWStep = AdamWStep {
        grad_scale: 0.5,
        weight_scale: 0.999,
        betas: BETAS,
        eps: EPS,
        step_size: 0.1,
        inv_sqrt_bias_correction2: 2.0,
    };
    for (name, device) in devices() {
        let draw = |seed| -> Tensor<1> { tensor(&numbers(seed, 1000), [1000], &device) };
        let squares = || draw(4).square();
        let numbers = |loss: f32, norm: f32| -> Tensor<1> { tensor(&[loss, norm], [2], &device) };
        for (norm, max, factor) in [
            (4.0, Some(2.0), 2.0 / (4.0 + 1e-6)),
            (4.0, Some(5.0), 1.0),
            (4.0, None, 1.0),
            (1e-6, Some(1e-6), 0.5),
        ] {
            let guard = Guard::new(numbers(0.5, norm), None, max);
            let moments = [draw(3), squares()];
            let (weight, [exp_avg, exp_avg_sq]) =
                update(draw(1), draw(2), moments, Some(&guard), STEP);
            let step = AdamWStep {
                grad_scale: STEP.grad_scale * factor,
                ..STEP
            };
            let (expected, [first, second]) =
                update(draw(1), draw(2), [draw(3), squares()], None, step);
            for (actual, expected) in [(weight, expected), (exp_avg, first), (exp_avg_sq, second)] {
                let what = format!("{name}: norm {norm}, at most {max:?}");
                assert_close(&what, &values(actual), &values(expected), 1e-6);
            }
        }
        let spoilt = [
            (f32::NAN, 1.0),
            (f32::INFINITY, 1.0),
            (1.0, f32::NAN),
            (1.0, f32::INFINITY),
            (f32::NEG_INFINITY, 1.0),
        ];
        for (loss, norm) in spoilt {
            let refused = Guard::new(numbers(loss, norm), None, Some(1.0));
            let later = Guard::new(numbers(1.0, 1.0), Some(&refused), Some(1.0));
            let gradient = draw(2) * f32::NAN;
            for (guard, gradient) in [(refused, gradient), (later, draw(2))] {
                let moments = [draw(3), squares()];
                let (weight, [exp_avg, exp_avg_sq]) =
                    update(draw(1), gradient, moments, Some(&guard), STEP);
                let pairs = [
                    (weight, draw(1)),
                    (exp_avg, draw(3)),
                    (exp_avg_sq, squares()),
                ];
                for (actual, before) in pairs {
                    assert_eq!(values(actual), values(before), "{name}: {loss}, {norm}");
                }
            }
        }
        // An update that is made after another one that was.
        let made = Guard::new(numbers(1.0, 1.0), None, None);
        let made = Guard::new(numbers(1.0, 1.0), Some(&made), None);
        let (weight, _) = update(draw(1), draw(2), [draw(3), squares()], Some(&made), STEP);
        assert_ne!(values(weight), values(draw(1)), "{name}");
    }
}

/// Computed by hand for a norm of 4 limited to 2: the gradient is `4 * 0.5 * 0.5 = 1`, except for PyTorch's 1e-6. First
/// moment `0.5 * 0.5 + 0.5 * 1`, second `0.75 * 0.25 + 0.25 * 1`, weight
/// `0.9 * 2 - 0.2 * 0.75 / (2 sqrt(0.4375) + 0.1)`.
#[test]
fn a_guarded_update_by_hand() {
    for (name, device) in devices() {
        let number = |x: f32| -> Tensor<1> { tensor(&[x], [1], &device) };
        let guard = Guard::new(tensor(&[0.3, 4.0], [2], &device), None, Some(2.0));
        assert_close(name, &values(guard.content()), &[0.5, 1.0], 1e-6);
        let step = AdamWStep {
            grad_scale: 0.5,
            weight_scale: 0.9,
            betas: (0.5, 0.75),
            eps: 0.1,
            step_size: 0.2,
            inv_sqrt_bias_correction2: 2.0,
        };
        let moments = [number(0.5), number(0.25)];
        let (weight, [exp_avg, exp_avg_sq]) =
            update(number(2.0), number(4.0), moments, Some(&guard), step);
        let found = [weight, exp_avg, exp_avg_sq].map(|x| values(x)[0]);
        assert_close(name, &found, &[1.694_579_7, 0.75, 0.4375], 1e-6);
    }
}

/// Fewer parameters than a launch takes, as many, and more, one of them empty; each with different numbers. Bit-identical on the CPU.
#[test]
fn many_parameters_are_updated_as_each_by_itself() {
    for (count, empty) in [(1, None), (7, None), (8, None), (21, None), (9, Some(4))] {
        // One launch of all, and launches of one with an empty parameter.
        for (name, device) in devices_of([8, 9].contains(&count)) {
            let input = |i: usize| {
                let length = if empty == Some(i) {
                    0
                } else {
                    [1000, 1, 3, 70_001, 256, 257, 33, 4096][i % 8]
                };
                let draw = |seed| -> Tensor<1> {
                    tensor(&numbers(4 * i + seed, length), [length], &device)
                };
                let j = i as f64;
                AdamWInput {
                    weight: draw(1),
                    grad: draw(2),
                    moments: [draw(3), draw(4).square()],
                    step: AdamWStep {
                        grad_scale: 0.5 + j / 10.0,
                        weight_scale: 0.9 + j / 1000.0,
                        betas: BETAS,
                        eps: EPS,
                        step_size: 0.1 / (1.0 + j),
                        inv_sqrt_bias_correction2: 2.0 + j,
                    },
                }
            };
            let norm: Tensor<1> = tensor(&[4.0], [1], &device);
            let guard = Guard::new(norm, None, Some(2.0));
            let together = adamw((0..count).map(input).collect(), Some(&guard));
            assert_eq!(together.len(), count);
            for (i, (weight, [exp_avg, exp_avg_sq])) in together.into_iter().enumerate() {
                let (expected, [first, second]) = adamw(vec![input(i)], Some(&guard)).remove(0);
                for (actual, expected) in
                    [(weight, expected), (exp_avg, first), (exp_avg_sq, second)]
                {
                    let (actual, expected) = (values(actual), values(expected));
                    if device == burn::tensor::Device::flex() {
                        assert_eq!(actual, expected, "{i} of {count}");
                    } else {
                        let what = format!("{name}: {i} of {count}");
                        assert_close(&what, &actual, &expected, 1e-6);
                    }
                }
            }
        }
    }
    assert!(adamw(Vec::new(), None).is_empty());
}

/// Fewer tensors than a launch takes, as many, and more; the CPU adds them one by one, bit-identically.
#[test]
fn the_squares_of_many_tensors_match_the_definition() {
    for count in [1, 7, 8, 9, 24] {
        let lengths = (0..count).map(|i| [1, 3, 4097, 70_001, 500][i % 5]);
        let data: Vec<Vec<f32>> = lengths
            .enumerate()
            .map(|(seed, length)| numbers(seed, length))
            .collect();
        let all = data.iter().flatten();
        let expected: f64 = all.map(|x| f64::from(*x).powi(2)).sum();
        for (name, device) in devices_of(count == 9) {
            let tensors: Vec<Tensor<1>> =
                data.iter().map(|x| tensor(x, [x.len()], &device)).collect();
            let sum = || values(square_sums(&tensors).unwrap());
            let actual = sum();
            let what = format!("{name} {count}");
            assert_close(&what, &actual, &[expected as f32], 1e-6);
            assert_eq!(actual, sum(), "{what}: to the bit");
            if device == burn::tensor::Device::flex() {
                let each = tensors.iter().map(|x| square_sum(x.clone()));
                let added = each.reduce(|a, b| a + b).unwrap();
                assert_eq!(actual, values(added), "{what}");
            }
        }
    }
    assert!(square_sums(&[]).is_none());
}

/// All tensors are f32 except one, at each position in turn, which is read in its own type.
#[test]
fn the_squares_of_tensors_of_several_types() {
    let device = burn::tensor::Device::flex();
    for other in 0..9 {
        // Powers of two: exact in every type.
        let tensors: Vec<Tensor<1>> = (0..9)
            .map(|i| {
                let x = tensor(&[0.5, 2.0, 1.0], [3], &device);
                if i == other { x.cast(DType::F16) } else { x }
            })
            .collect();
        let sum = square_sums(&tensors).unwrap();
        assert_eq!(sum.dtype(), DType::F32);
        assert_eq!(values(sum), [9.0 * 5.25]);
    }
    let halves: Vec<_> = (0..9)
        .map(|_| tensor(&[1.0], [1], &device).cast(DType::F16))
        .collect();
    let sum = square_sums(&halves).unwrap();
    assert_eq!(sum.dtype(), DType::F16);
    assert_eq!(values(sum.cast(DType::F32)), [9.0]);
}

/// On the CPU, a guard's factor is bit-identical to the one that the host computes.
#[test]
fn a_guard_on_the_cpu_rounds_as_the_host() {
    let device = burn::tensor::Device::flex();
    for (norm, max) in [(3.7f32, 1.0), (0.3, 0.1), (17.1, 0.02)] {
        let draw = |seed| -> Tensor<1> { tensor(&numbers(seed, 1000), [1000], &device) };
        let moments = || [draw(3), draw(4).square()];
        let scale = (max / (f64::from(norm) + 1e-6)).min(1.0);
        let step = |grad_scale| AdamWStep {
            grad_scale,
            weight_scale: 0.999,
            betas: BETAS,
            eps: EPS,
            step_size: 0.1,
            inv_sqrt_bias_correction2: 2.0,
        };
        let guard = Guard::new(tensor(&[norm], [1], &device), None, Some(max));
        let (guarded, _) = update(draw(1), draw(2), moments(), Some(&guard), step(1.0));
        let (host, _) = update(draw(1), draw(2), moments(), None, step(scale));
        assert_eq!(values(guarded), values(host));
    }
}
