//! Lemma 3: how many keys must be kept to keep all relevant ones.

use kvt_ops::Key;

use super::{Curve, normal};
use kvt_train::analysis::Moments;

/// As in `scripts/reference/lemmas.py`.
pub(super) const KEYS: usize = 196;
pub(super) const RELEVANT: usize = 8;
const DIMS: [usize; 5] = [8, 16, 32, 64, 128];
const NOISE: f64 = 0.5;

/// k-NN attention keeps all relevant keys if k is at least the number of keys that score no lower than the lowest relevant key.
pub(super) fn compute(draws: usize) -> Curve {
    let points = DIMS.into_iter().filter_map(|dim| {
        let mut shares = Moments::default();
        for draw in 0..draws {
            let key = Key::new(draw as u64).named("lemma 3").child(dim as u64);
            let keys = normal(key.child(0), KEYS * dim);
            let noise = normal(key.child(1), dim);
            let mut query: Vec<f64> = noise.into_iter().map(|z| NOISE * z).collect();
            for key in keys.chunks_exact(dim).take(RELEVANT) {
                for (query, key) in query.iter_mut().zip(key) {
                    *query += key / RELEVANT as f64;
                }
            }
            let score = |key: &[f64]| -> f64 { key.iter().zip(&query).map(|(k, q)| k * q).sum() };
            let scores: Vec<f64> = keys.chunks_exact(dim).map(score).collect();
            let relevant = scores.iter().take(RELEVANT).copied();
            let least = relevant.fold(f64::INFINITY, f64::min);
            let needed = scores.iter().filter(|score| **score >= least).count();
            shares.extend([needed as f64 / KEYS as f64]);
        }
        Some((dim as f64, shares.estimate()?))
    });
    Curve {
        lemma: 3,
        quantity: "share",
        title: "share of keys needed",
        x: "dimension",
        points: points.collect(),
    }
}
