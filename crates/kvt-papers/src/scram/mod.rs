//! [SCRAM](https://arxiv.org/abs/1905.10308) (Calian, Roelants et al., 2019).

pub(super) mod estimators;
pub(super) mod fig2;
pub(super) mod fig3;
pub(super) mod fig4;
mod input;
pub(super) mod recall;

use kvt_attention::scram::{Fields, PatchMatch, Tokens};
use kvt_ops::Key;

/// The search of all items, with as many iterations in each.
fn search(tokens: &Tokens<'_>, kept: usize, separation: usize, key: Key) -> Fields {
    let search = PatchMatch {
        kept,
        separation,
        iterations: 8,
    };
    search.search(tokens, key)
}

/// The weights of one query, by key: a softmax over the given keys, 0 elsewhere.
fn weights(tokens: &Tokens<'_>, query: usize, scale: f64, keys: &[usize]) -> Vec<f64> {
    let score = |key: &usize| scale * f64::from(tokens.product(0, query, *key));
    let scores: Vec<f64> = keys.iter().map(score).collect();
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = scores.iter().map(|score| (score - largest).exp()).sum();
    let mut weights = vec![0.0; tokens.tokens()];
    for (key, score) in keys.iter().zip(scores) {
        weights[*key] = (score - largest).exp() / sum;
    }
    weights
}

/// The weights of one query over all keys.
fn full(tokens: &Tokens<'_>, query: usize, scale: f64) -> Vec<f64> {
    let keys: Vec<usize> = (0..tokens.tokens()).collect();
    weights(tokens, query, scale, &keys)
}

/// The first `kept` matches of a query in the first head.
fn first(fields: &Fields, query: usize, kept: usize) -> Vec<usize> {
    fields.matches(0, query).take(kept).collect()
}

/// A share in [0, 1] with three decimals.
fn share(value: f64) -> String {
    format!("{value:.3}")
}
