#![expect(clippy::unwrap_used, reason = "tests")]

use kvt_ops::Key;
use rand::RngExt;

use super::{Estimator, Fields, PatchMatch, Proposal, Tokens};

const NEAR: Proposal = Proposal {
    alpha: 0.8,
    length: 2.0,
};

/// Numbers from -1 to 1.
fn numbers(key: u64, count: usize) -> Vec<f32> {
    let mut rng = Key::new(key).rng();
    (0..count)
        .map(|_| 2.0 * rng.random::<f32>() - 1.0)
        .collect()
}

/// `softmax(scale * q k^T) v` in f64, over all keys.
fn dense(tokens: &Tokens<'_>, values: &[f32], value_dim: usize, scale: f64) -> Vec<f64> {
    let count = tokens.tokens();
    let mut all = Vec::new();
    for (head, query) in (0..tokens.heads()).flat_map(|h| (0..count).map(move |q| (h, q))) {
        let weight = |key| (scale * f64::from(tokens.product(head, query, key))).exp();
        let weights: Vec<f64> = (0..count).map(weight).collect();
        let sum: f64 = weights.iter().sum();
        for channel in 0..value_dim {
            let value = |key: usize| f64::from(values[(head * count + key) * value_dim + channel]);
            all.push((0..count).map(|key| weights[key] * value(key)).sum::<f64>() / sum);
        }
    }
    all
}

fn modes(tokens: &Tokens<'_>, kept: usize) -> Fields {
    let search = PatchMatch {
        kept,
        separation: 3,
        iterations: 8,
    };
    search.search(tokens, Key::new(1))
}

/// If the proposal equals the attention, all weights are equal, and every sample counts. The scores of the keys are
/// the logarithms of equation 17 around one mode, computed here over the whole map.
#[test]
fn samples_from_the_attention_itself_all_count() {
    let ([rows, columns], mode) = ([6_usize, 9], [1_usize, 7]);
    let gauss = |at: [usize; 2]| {
        let square = |axis: usize| (at[axis] as f64 - mode[axis] as f64).powi(2);
        (-(square(0) + square(1)) / 8.0).exp()
    };
    let all: Vec<[usize; 2]> = (0..rows)
        .flat_map(|y| (0..columns).map(move |x| [y, x]))
        .collect();
    let sum: f64 = all.iter().map(|at| gauss(*at)).sum();
    let logarithm = |at: &[usize; 2]| (0.8 * gauss(*at) / sum + 0.2 / 54.0).ln() as f32;
    let keys: Vec<f32> = all.iter().map(logarithm).collect();
    let (queries, values) = (vec![1.0; 54], numbers(3, 54));
    let tokens = Tokens::new(&queries, &keys, 1, [rows, columns]).unwrap();
    let best = Fields::exact(&tokens, 1, 0);
    assert_eq!(best.matches(0, 5).collect::<Vec<_>>(), [16]);
    let estimator = Estimator::new(tokens, &values, 1.0, &best).unwrap();
    let samples = estimator.importance(NEAR, 64, Key::new(2)).unwrap();
    for effective in &samples.effective {
        assert!((effective - 64.0).abs() < 1e-4, "{effective}");
    }
    // A narrower proposal weighs its samples differently.
    let narrow = Proposal {
        length: 0.5,
        ..NEAR
    };
    let samples = estimator.importance(narrow, 64, Key::new(2)).unwrap();
    assert!(samples.effective.iter().all(|effective| *effective < 50.0));
}

/// The error of importance sampling matches its predicted variance, and falls with the square root of the samples.
#[test]
fn importance_sampling_converges_as_it_says() {
    let (grid, dim, heads) = ([8, 8], 4, 2);
    let [queries, keys, values] = [1, 2, 3].map(|key| numbers(key, heads * 64 * dim));
    let tokens = Tokens::new(&queries, &keys, dim, grid).unwrap();
    let modes = modes(&tokens, 3);
    let scale = 1.5;
    let exact = dense(&tokens, &values, dim, scale);
    let estimator = Estimator::new(tokens, &values, scale, &modes).unwrap();
    let mut errors = Vec::new();
    for samples in [128, 2048] {
        let found = estimator.importance(NEAR, samples, Key::new(4)).unwrap();
        let count = exact.len() as f64;
        let square = |(a, b): (&f64, &f64)| (a - b).powi(2);
        let error = found.output.iter().zip(&exact).map(square).sum::<f64>() / count;
        let predicted = found.variance.iter().sum::<f64>() / count;
        let ratio = (error / predicted).sqrt();
        assert!((ratio - 1.0).abs() < 0.15, "{samples} samples: {ratio}");
        let effective = found.effective.iter().sum::<f64>() / found.effective.len() as f64;
        assert!(
            effective > 0.2 * samples as f64 && effective < samples as f64,
            "{effective}"
        );
        errors.push(error.sqrt());
    }
    // Sixteen times the samples, a quarter of the error.
    let gain = errors[0] / errors[1];
    assert!((gain / 4.0 - 1.0).abs() < 0.2, "{gain}");
}

/// On a small map chains mix: the mean of many agrees with the exact output within its standard error. Clamped steps
/// would be off by tens of standard errors.
#[test]
fn chains_on_a_small_map_have_the_exact_mean() {
    let (grid, dim) = ([4, 4], 4);
    let [queries, keys, values] = [5, 6, 7].map(|key| numbers(key, 16 * dim));
    let tokens = Tokens::new(&queries, &keys, dim, grid).unwrap();
    let modes = modes(&tokens, 1);
    let exact = dense(&tokens, &values, dim, 2.0);
    let estimator = Estimator::new(tokens, &values, 2.0, &modes).unwrap();
    let runs = 32;
    let (mut sums, mut squares) = (vec![0.0; exact.len()], vec![0.0; exact.len()]);
    for run in 0..runs {
        let chains = estimator.metropolis(1500, 2.0, Key::new(run)).unwrap();
        assert!(
            chains.acceptance > 0.1 && chains.acceptance < 0.3,
            "{}",
            chains.acceptance
        );
        for (i, x) in chains.output.iter().enumerate() {
            sums[i] += x;
            squares[i] += x * x;
        }
    }
    let count = runs as f64;
    let mut worst = 0.0_f64;
    for ((sum, square), exact) in sums.iter().zip(&squares).zip(&exact) {
        let mean = sum / count;
        let variance = (square / count - mean * mean) / (count - 1.0);
        worst = worst.max((mean - exact).abs() / variance.sqrt());
    }
    // The largest of 64 z-scores.
    assert!(worst < 4.5, "{worst}");
}

/// By hand: a chain that cannot leave a map of one token, and a chain between two keys that never leaves one of them.
#[test]
fn chains_by_hand() {
    let tokens = Tokens::new(&[1.0], &[1.0], 1, [1, 1]).unwrap();
    let modes = Fields::exact(&tokens, 1, 0);
    let estimator = Estimator::new(tokens, &[3.0, -2.0], 1.0, &modes).unwrap();
    let chains = estimator.metropolis(10, 1.0, Key::new(1)).unwrap();
    assert_eq!(chains.output, [3.0, -2.0]);

    let tokens = Tokens::new(&[1.0, 1.0], &[0.0, 50.0], 1, [1, 2]).unwrap();
    let modes = Fields::from_keys([1, 2], 1, &[Some(1), Some(1)]);
    let estimator = Estimator::new(tokens, &[3.0, -2.0], 1.0, &modes).unwrap();
    let chains = estimator.metropolis(50, 1.0, Key::new(1)).unwrap();
    assert_eq!(chains.output, [-2.0, -2.0]);
    // Only steps that stay in place are accepted.
    assert!(
        chains.acceptance > 0.05 && chains.acceptance < 0.3,
        "{}",
        chains.acceptance
    );
}

#[test]
fn nonsense_is_refused() {
    let tokens = Tokens::new(&[1.0; 4], &[1.0; 4], 1, [2, 2]).unwrap();
    let modes = Fields::exact(&tokens, 1, 0);
    assert!(Estimator::new(tokens, &[1.0; 6], 1.0, &modes).is_err());
    let other = Tokens::new(&[1.0; 4], &[1.0; 4], 1, [1, 4]).unwrap();
    assert!(Estimator::new(other, &[1.0; 4], 1.0, &modes).is_err());
    let estimator = Estimator::new(tokens, &[1.0; 8], 1.0, &modes).unwrap();
    for (alpha, length, samples) in [
        (-0.1, 1.0, 1),
        (1.1, 1.0, 1),
        (f64::NAN, 1.0, 1),
        (0.5, 0.0, 1),
        (0.5, f64::NAN, 1),
        (0.5, f64::INFINITY, 1),
        (0.5, 1.0, 0),
    ] {
        let proposal = Proposal { alpha, length };
        assert!(
            estimator
                .importance(proposal, samples, Key::new(0))
                .is_err(),
            "{proposal:?}"
        );
    }
    for (steps, deviation) in [(0, 1.0), (1, 0.0), (1, f64::NAN), (1, f64::INFINITY)] {
        assert!(estimator.metropolis(steps, deviation, Key::new(0)).is_err());
    }
}
