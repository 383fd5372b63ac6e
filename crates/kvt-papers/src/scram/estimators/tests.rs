#![expect(clippy::unwrap_used, reason = "tests")]

use kvt_attention::scram::Fields;

use super::super::super::tests::Heard;
use super::*;

const SIDE: usize = 5;
const TOKENS: usize = SIDE * SIDE;
const MANY: Draws = Draws { pairs: 12, runs: 8 };

/// Bias and spread of uniform sampling, for attention of this scale; the weights, values and exact outputs.
fn uniform(scale: f64, samples: usize) -> (Measured, Vec<Vec<f64>>, Vec<f32>, Vec<f64>) {
    let [queries, keys, values] = [1, 2, 3].map(|key| input::noise(Key::new(key), TOKENS * DIM));
    let tokens = Tokens::new(&queries, &keys, DIM, [SIDE, SIDE]).unwrap();
    let modes = Fields::exact(&tokens, 2, 1);
    let weights: Vec<_> = (0..TOKENS)
        .map(|query| full(&tokens, query, scale))
        .collect();
    let exact = sums(&values, weights.iter().cloned());
    let estimator = Estimator::new(tokens, &values, scale, &modes).unwrap();
    let draw = |run| drawn(Method::Uniform, &estimator, samples, Key::new(run));
    let record = MANY.measure(&exact, draw).unwrap();
    (record, weights, values, exact)
}

/// The sum over keys of `factor(weight) * (value - middle)`, in squares: of the summed vector, and of its terms.
fn squares(
    factor: impl Fn(f64) -> f64,
    (weights, values, exact): (&[Vec<f64>], &[f32], &[f64]),
) -> [f64; 2] {
    let (mut bias, mut spread) = (0.0, 0.0);
    for (weights, exact) in weights.iter().zip(exact.chunks(DIM)) {
        for (channel, exact) in exact.iter().enumerate() {
            let off = |key: usize| f64::from(values[key * DIM + channel]) - exact;
            let terms = (0..TOKENS).map(|key| factor(weights[key]) * off(key));
            bias += terms.clone().sum::<f64>().powi(2);
            spread += terms.map(|term| term * term).sum::<f64>();
        }
    }
    let length: f64 = exact.iter().map(|x| x * x).sum();
    [bias / length, spread / length]
}

/// One uniform sample is any value: its mean is that of all values, without a regard to the attention.
#[test]
fn one_sample_is_biased_by_the_mean_of_the_values() {
    let (record, weights, values, exact) = uniform(0.2, 1);
    let even = 1.0 / TOKENS as f64;
    let [bias, _] = squares(|_| even, (&weights, &values, &exact));
    let error = record.error.unwrap();
    assert!(error < 0.1 * bias, "{error} of {bias}");
    assert!(
        (record.bias - bias).abs() < 4.0 * error,
        "{} ± {error}: {bias}",
        record.bias
    );
    let [_, square] = squares(|_| even.sqrt(), (&weights, &values, &exact));
    let spread = record.spread.unwrap();
    assert!(
        (spread / (square - bias) - 1.0).abs() < 0.05,
        "{spread}: {square} - {bias}"
    );
}

/// The first term in `1 / samples` (delta method).
#[test]
fn many_samples_have_the_spread_of_theory() {
    let samples = 128.0;
    let (record, weights, values, exact) = uniform(0.1, 128);
    let all = (&weights[..], &values[..], &exact[..]);
    let [_, spread] = squares(|weight| (TOKENS as f64 / samples).sqrt() * weight, all);
    for found in [record.spread, record.predicted] {
        let found = found.unwrap();
        assert!((found / spread - 1.0).abs() < 0.1, "{found}: {spread}");
    }
    assert!(record.bias < 0.01, "{}", record.bias);
}

/// Where attention is uniform, so is the proposal, and every mean of samples is unbiased.
#[test]
fn samples_of_uniform_attention_are_unbiased() {
    for samples in [1, 4] {
        let (record, ..) = uniform(0.0, samples);
        let (bias, error) = (record.bias, record.error.unwrap());
        assert!(bias.abs() < 4.0 * error, "{samples}: {bias} ± {error}");
        assert!(error < 0.02 * record.spread.unwrap());
        assert!((record.effective.unwrap() - samples as f64).abs() < 1e-9);
    }
}

#[test]
fn a_page_has_every_estimator() {
    let few = Draws { pairs: 4, runs: 2 };
    let heard = Heard::default();
    let outcome = compute(SIDE, &[1, 4, 64], few, &heard).unwrap();
    assert_eq!(heard.steps().last(), Some(&(9, 9)));
    let rows: Vec<Vec<&str>> = outcome
        .csv
        .lines()
        .skip(1)
        .map(|line| line.split(',').collect())
        .collect();
    let of = |name: &str| {
        rows.iter()
            .filter(|row| row[0] == name)
            .cloned()
            .collect::<Vec<_>>()
    };
    let [mixture, uniform, chains, sparse] = Method::ALL.map(|method| of(method.name()));
    assert_eq!(
        [mixture.len(), uniform.len(), chains.len(), sparse.len()],
        [3, 3, 2, 3]
    );
    let number = |cell: &str| cell.parse::<f64>().unwrap();
    // Windows around the modes have more of the keys the wider they are.
    let biases: Vec<f64> = sparse.iter().map(|row| number(row[2])).collect();
    assert!(biases.is_sorted_by(|a, b| a > b), "{biases:?}");
    // More samples, less spread.
    for rows in [&mixture, &uniform] {
        assert!(number(rows[2][4]) < 0.1 * number(rows[0][4]), "{rows:?}");
    }
    assert_eq!(outcome, compute(SIDE, &[1, 4, 64], few, &heard).unwrap());
}

#[test]
fn a_sum_of_all_keys_is_exact() {
    let [queries, keys, values] = [1, 2, 3].map(|key| input::noise(Key::new(key), TOKENS * DIM));
    let tokens = Tokens::new(&queries, &keys, DIM, [SIDE, SIDE]).unwrap();
    let modes = Fields::exact(&tokens, 1, 0);
    let exact = sums(&values, (0..TOKENS).map(|query| full(&tokens, query, 0.5)));
    let bias = |radius| {
        let near = (0..TOKENS).map(|query| modes.candidates(0, query, radius));
        let near = near
            .enumerate()
            .map(|(query, keys)| weights(&tokens, query, 0.5, &keys));
        Measured::of_sum(&exact, &sums(&values, near)).bias
    };
    assert!(
        bias(SIDE) < 1e-20 && bias(1) > 1e-4,
        "{} {}",
        bias(SIDE),
        bias(1)
    );
}

/// Worked by hand: the error of a root is that of its square, divided by twice the root.
#[test]
fn a_bias_within_its_error_is_a_limit() {
    let cell = |bias, error| {
        let measured = Measured {
            bias,
            error: Some(error),
            ..Measured::default()
        };
        measured.bias_text()
    };
    assert_eq!(cell(0.04, 0.004), "20.0 ± 1.0");
    assert_eq!(cell(0.0001, 0.0001), "< 1.7");
    assert_eq!(cell(-0.0001, 0.0002), "< 2.0");
}
