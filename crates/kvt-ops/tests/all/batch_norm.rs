//! Batch normalisation against its definition in double precision, with gradients by hand, on every device.

use burn::tensor::Tensor;
use kvt_ops::{BatchNormInput, batch_norm, batch_norm_train};

use kvt_testing::devices::{assert_close, devices, devices_of, tensor, values};

const EPSILON: f64 = 1e-3;

/// Numbers in no order around a mean that differs by channel.
fn numbers([outer, channels, inner]: [usize; 3], offset: f32) -> Vec<f32> {
    (0..outer * channels * inner)
        .map(|i| {
            let channel = i / inner % channels;
            (i * 7919 % 2003) as f32 / 500.0 - 2.0 + offset * (channel % 7) as f32
        })
        .collect()
}

fn of_channels(channels: usize, from: f32) -> Vec<f32> {
    (0..channels)
        .map(|c| from + (c * 31 % 11) as f32 / 8.0)
        .collect()
}

/// Output, gradients of x, gamma, beta and the residual, mean and variance, from the definition.
struct Defined([Vec<f32>; 7]);

impl Defined {
    fn new(
        x: &[f32],
        [outer, channels, inner]: [usize; 3],
        [gamma, beta, grad]: [&[f32]; 3],
        given: Option<[&[f32]; 2]>,
        residual: Option<&[f32]>,
        relu: bool,
    ) -> Self {
        let mut all = [
            vec![0.0; x.len()],
            vec![0.0; x.len()],
            vec![0.0; channels],
            vec![0.0; channels],
            vec![0.0; x.len()],
            vec![0.0; channels],
            vec![0.0; channels],
        ];
        for c in 0..channels {
            let places: Vec<usize> = (0..outer)
                .flat_map(|i| (0..inner).map(move |j| (i * channels + c) * inner + j))
                .collect();
            let count = places.len() as f64;
            let value = |i: &usize| f64::from(x[*i]);
            let own_mean = places.iter().map(value).sum::<f64>() / count;
            let squares = places.iter().map(|i| (value(i) - own_mean).powi(2));
            let own_variance = squares.sum::<f64>() / count;
            let [mean, variance] = match given {
                Some(given) => given.map(|given| f64::from(given[c])),
                None => [own_mean, own_variance],
            };
            let rstd = 1.0 / (variance + EPSILON).sqrt();
            let hat = |i: &usize| (value(i) - mean) * rstd;
            let added = |i: &usize| residual.map_or(0.0, |residual| f64::from(residual[*i]));
            let out = |i: &usize| hat(i) * f64::from(gamma[c]) + f64::from(beta[c]) + added(i);
            let passes = |i: &usize| !relu || out(i) > 0.0;
            let grad = |i: &usize| if passes(i) { f64::from(grad[*i]) } else { 0.0 };
            let sum = places.iter().map(grad).sum::<f64>();
            let along = places.iter().map(|i| grad(i) * hat(i)).sum::<f64>();
            for i in &places {
                all[0][*i] = if passes(i) { out(i) } else { 0.0 } as f32;
                let through = match given {
                    Some(_) => 0.0,
                    None => (sum + hat(i) * along) / count,
                };
                all[1][*i] = (f64::from(gamma[c]) * rstd * (grad(i) - through)) as f32;
                all[4][*i] = grad(i) as f32;
            }
            for (which, value) in [(2, along), (3, sum), (5, own_mean), (6, own_variance)] {
                all[which][c] = value as f32;
            }
        }
        Self(all)
    }
}

#[test]
fn outputs_statistics_and_gradients_match_the_definition() {
    // Planes that are and are not multiples of a lane, more rows than are summed at once, a single row, one channel, planes larger
    // than a block, and means that are large beside the spread.
    for (shape, offset) in [
        ([3, 5, 49], 0.0),
        ([2, 3, 7], 100.0),
        ([1500, 19, 1], 100.0),
        ([1, 4, 1], 0.0),
        ([70, 1, 1], 0.0),
        ([2, 2, 20_000], 3.0),
    ] {
        let [_, channels, _] = shape;
        let x = numbers(shape, offset);
        let probe: Vec<f32> = numbers(shape, 0.0).into_iter().rev().collect();
        let (gamma, beta) = (of_channels(channels, -0.5), of_channels(channels, -0.75));
        let given = [of_channels(channels, offset), of_channels(channels, 0.5)];
        let residual: Vec<f32> = numbers(shape, 0.5).into_iter().rev().collect();
        let cases = (0..8).map(|i| [1, 2, 4].map(|bit| i & bit > 0));
        for [is_given, relu, is_added] in cases {
            // On a GPU, Burn's operations: the hardest mean, with and without each of the three.
            let few = shape == [2, 3, 7] && is_given != relu && is_added == relu;
            for (name, device) in devices_of(few) {
                let device = device.autodiff();
                let leaf = |values: &[f32]| tensor(values, [channels], &device).require_grad();
                let (g, b) = (leaf(&gamma), leaf(&beta));
                let leaf = tensor(&x, shape, &device).require_grad();
                let r = tensor(&residual, shape, &device).require_grad();
                let input = BatchNormInput {
                    gamma: g.clone(),
                    beta: b.clone(),
                    epsilon: EPSILON,
                    residual: is_added.then(|| r.clone()),
                    relu,
                };
                let (out, statistics) = if is_given {
                    let given = [0, 1].map(|i| tensor(&given[i], [channels], &device));
                    (batch_norm(leaf.clone(), input, given), None)
                } else {
                    let found = batch_norm_train(leaf.clone(), input);
                    (found.output, Some([found.mean, found.variance]))
                };
                let grads = (out.clone() * tensor(&probe, shape, &device))
                    .sum()
                    .backward();
                let grad = |x: &Tensor<1>| values(x.grad(&grads).unwrap());
                let mut actual = vec![
                    values(out),
                    values(leaf.grad(&grads).unwrap()),
                    grad(&g),
                    grad(&b),
                ];
                let given = is_given.then(|| [&*given[0], &*given[1]]);
                let added = is_added.then_some(&*residual);
                let Defined(mut expected) =
                    Defined::new(&x, shape, [&gamma, &beta, &probe], given, added, relu);
                if !is_added {
                    expected[4].clear();
                }
                actual.push(r.grad(&grads).map(values).unwrap_or_default());
                actual.extend(statistics.into_iter().flatten().map(values));
                let what = ["out", "x", "gamma", "beta", "residual", "mean", "variance"];
                for ((what, actual), expected) in what.iter().zip(&actual).zip(&expected) {
                    let case = format!(
                        "{name} {shape:?} given {is_given} relu {relu} added {is_added}: {what}"
                    );
                    // A single value has no spread: its gradient is a difference of equal numbers.
                    let tolerance = if offset > 10.0 { 2e-4 } else { 2e-5 };
                    assert_close(&case, actual, expected, tolerance);
                }
            }
        }
    }
}

/// As in PyTorch, a NaN stays one, whether or not a ReLU follows.
#[test]
fn a_nan_is_not_hidden() {
    for (name, device) in devices().into_iter().take(1) {
        for relu in [false, true] {
            let x = tensor(&[1.0, f32::NAN, 2.0, 3.0], [2, 2, 1], &device);
            let [gamma, beta] = [1.0, 0.0].map(|x| tensor(&[x; 2], [2], &device));
            let input = BatchNormInput {
                gamma,
                beta,
                epsilon: EPSILON,
                residual: None,
                relu,
            };
            let out = values(batch_norm_train(x, input).output);
            let is_nan: Vec<_> = out.iter().map(|x| x.is_nan()).collect();
            assert_eq!(is_nan, [false, true, false, true], "{name} {relu}");
        }
    }
}

/// As in Burn's ReLU, the gradient of a NaN is not hidden either.
#[test]
fn a_nan_passes_its_gradient() {
    let device = burn::tensor::Device::flex().autodiff();
    let x = tensor(&[1.0, f32::NAN, 2.0, -3.0], [2, 2, 1], &device);
    let [zeros, ones] = [0.0, 1.0].map(|x| tensor(&[x; 2], [2], &device));
    let residual = tensor(&[0.0; 4], [2, 2, 1], &device).require_grad();
    let input = BatchNormInput {
        gamma: ones.clone(),
        beta: zeros.clone(),
        epsilon: EPSILON,
        residual: Some(residual.clone()),
        relu: true,
    };
    let grads = batch_norm(x, input, [zeros, ones]).sum().backward();
    let found = values(residual.grad(&grads).unwrap());
    assert_eq!(found, [1.0, 1.0, 1.0, 0.0]);
}

#[test]
#[should_panic(expected = "it takes f32, so cast them first")]
fn a_parameter_of_another_type_is_refused() {
    let device = burn::tensor::Device::flex();
    let [gamma, beta] = [1.0, 0.0].map(|x| tensor(&[x; 2], [2], &device));
    let input = BatchNormInput {
        gamma: gamma.cast(burn::tensor::DType::BF16),
        beta,
        epsilon: EPSILON,
        residual: None,
        relu: false,
    };
    let _ = batch_norm_train(tensor(&[1.0; 4], [2, 2, 1], &device), input);
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    for shape in [[2, 5, 999], [1500, 19, 1]] {
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            pool.unwrap().install(|| {
                let device = burn::tensor::Device::flex().autodiff();
                let x = tensor(&numbers(shape, 1.0), shape, &device).require_grad();
                let [gamma, beta] =
                    [1.5, 0.5].map(|x| tensor(&vec![x; shape[1]], [shape[1]], &device));
                let input = BatchNormInput {
                    gamma,
                    beta,
                    epsilon: EPSILON,
                    residual: Some(x.clone() * 0.5),
                    relu: true,
                };
                let out = batch_norm_train(x.clone(), input).output;
                let grads = (out.clone() * out.clone()).sum().backward();
                (values(out), values(x.grad(&grads).unwrap()))
            })
        };
        assert_eq!(run(1), run(3));
    }
}
