//! Attention with stored scores: with dropout, with rankings other than by score, and with Burn's own operations.

use burn::tensor::{Bool, DType, Int, Tensor};

use kvt_ops::{knn_softmax, top_k};

use super::{Implementation, Selection, SoftmaxAttention};
use crate::{Dropout, Score};

/// [`super::attend_unchecked`] where the scores are stored.
pub(super) fn attend(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    score: Score,
    scale: f64,
    attention: &SoftmaxAttention,
    dropout: Option<Dropout>,
) -> Tensor<4> {
    let dtype = q.dtype();
    // Rounded scores would have more ties, and keep other keys.
    let [q, k, v] = [q, k, v].map(|x| x.cast(DType::F32));
    let [_, heads, keys, _] = k.dims();
    let score = for_every_head(score, heads);
    let kept = attention.neighbors.resolve(keys).max(1);
    let distance = match attention.selection {
        Selection::Euclidean if kept < keys => Some(negative_distance(q.clone(), k.clone())),
        _ => None,
    };
    // Scaling q costs head_dim products per query, scaling the scores would cost one per key.
    let q = q * (scale / attention.temperature);
    let mut scores = q.matmul(k.swap_dims(2, 3));
    if let Some(bias) = score.bias {
        scores = scores + bias.cast(DType::F32);
    }
    let scores = hide(scores, score.mask.clone());
    let drop_out = |weights: Tensor<4>| Dropout::apply_any(dropout, weights);
    let out = if attention.is_fused(keys) {
        drop_out(knn_softmax(scores, kept)).matmul(v)
    } else {
        let ranking = match distance {
            Some(distance) => hide(distance, score.mask),
            None => scores.clone(),
        };
        let selected = top_k::select(ranking, kept);
        // A NaN or +inf spoils its row even if its key is not kept: a ranking by distance does not see the bias.
        let spoilt = spoilt(scores.clone());
        if attention.implementation == Implementation::Gathered {
            let indices = top_k::indices(selected, kept);
            // Added, not filled in, so that the gradient is spoilt as well.
            let scores = scores.gather(3, indices.clone());
            let nothing = Tensor::<4>::zeros(spoilt.dims(), &scores.device());
            let scores = scores + nothing.mask_fill(spoilt, f32::NAN);
            let probabilities = drop_out(knn_softmax(scores, kept));
            gather_values(v, indices)
                .mul(probabilities.unsqueeze_dim::<5>(4))
                .sum_dim(3)
                .squeeze_dim(3)
        } else {
            let selected = selected.bool_or(spoilt.expand(scores.dims()));
            let scores = hide(scores, Some(selected.bool_not()));
            drop_out(knn_softmax(scores, keys)).matmul(v)
        }
    };
    out.cast(dtype)
}

/// Bias and mask with a matrix for every head, or one for all of them.
fn for_every_head(score: Score, heads: usize) -> Score {
    let whole = |count: usize| count == 1 || count == heads;
    Score {
        bias: score.bias.map(|bias| match bias.dims()[1] {
            count if whole(count) => bias,
            count => bias.repeat_dim(1, heads / count),
        }),
        mask: score.mask.map(|mask| match mask.dims() {
            [_, windows, ..] if whole(windows) => mask,
            [batch, windows, queries, keys] => {
                let of_a_window = heads / windows;
                let mask = mask.unsqueeze_dim::<5>(2);
                mask.expand([batch, windows, of_a_window, queries, keys])
                    .reshape([batch, heads, queries, keys])
            }
        }),
    }
}

/// The rows that hold a NaN or +inf, `[batch, heads, query, 1]`.
fn spoilt(scores: Tensor<4>) -> Tensor<4, Bool> {
    let infinite = scores.clone().equal_elem(f32::INFINITY);
    let broken = scores.is_nan().bool_or(infinite);
    broken.int().sum_dim(3).greater_elem(0)
}

/// `q.k - |k|^2 / 2`, which orders the keys as `-|q - k|` does, `[batch, heads, query, key]`.
/// A constant: it only ranks.
fn negative_distance(q: Tensor<4>, k: Tensor<4>) -> Tensor<4> {
    let (q, k) = (q.detach(), k.detach());
    let norms = (k.clone() * k.clone()).sum_dim(3).swap_dims(2, 3);
    q.matmul(k.swap_dims(2, 3)) - norms * 0.5
}

/// The values of the kept keys, `[batch, heads, query, k, value_dim]`.
fn gather_values(v: Tensor<4>, indices: Tensor<4, Int>) -> Tensor<5> {
    let [batch, heads, keys, value_dim] = v.dims();
    let [_, _, queries, kept] = indices.dims();
    let v = v
        .unsqueeze_dim::<5>(2)
        .expand([batch, heads, queries, keys, value_dim]);
    let indices = indices
        .unsqueeze_dim::<5>(4)
        .expand([batch, heads, queries, kept, value_dim]);
    v.gather(3, indices)
}

fn hide(scores: Tensor<4>, mask: Option<Tensor<4, Bool>>) -> Tensor<4> {
    match mask {
        Some(mask) => {
            let shape = scores.dims();
            scores.mask_fill(mask.expand(shape), f32::NEG_INFINITY)
        }
        None => scores,
    }
}
