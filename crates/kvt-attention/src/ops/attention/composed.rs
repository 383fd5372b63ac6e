//! Attention composed of matrix products and [`KnnOps::knn_softmax`], for backends without a kernel of
//! their own.
//!
//! Few scores are turned into probabilities once, which the gradient gets. Many are made block of
//! queries by block of queries, and again for the gradient, which then gets nothing: beside inputs
//! and outputs the memory is that of one block, whatever the length of the rows.

use burn::backend::{Backend, Scalar, TensorMetadata, tensor::FloatTensor};
use burn::tensor::{Shape, Slice};

use super::{AttentionSettings, KnnOps};

/// Scores that are kept, or made at a time: 128 MiB of them in f32.
pub(super) const SCORES: usize = 1 << 25;

/// Output, and the probabilities if there are at most `limit` of them; else a single number.
pub(super) fn forward<B: KnnOps>(
    [q, k, v]: [FloatTensor<B>; 3],
    settings: AttentionSettings,
    limit: usize,
) -> (FloatTensor<B>, FloatTensor<B>) {
    let Some(block) = block::<B>(&q, &k, limit) else {
        let probabilities = probabilities::<B>(q, k, settings);
        return (B::float_matmul(probabilities.clone(), v), probabilities);
    };
    let blocks = blocks::<B>(&q, block);
    // What is saved must exist; nobody looks at it.
    let saved = rows::<B>(&q, 0, 1);
    let out = blocks.map(|(start, end)| {
        let q = rows::<B>(&q, start, end);
        let probabilities = probabilities::<B>(q, k.clone(), settings);
        B::float_matmul(probabilities, v.clone())
    });
    (B::float_cat(out.collect(), 2), saved)
}

/// The gradients of q, k and v; `saved`, `settings` and `limit` are those of [`forward`].
pub(super) fn backward<B: KnnOps>(
    [q, k, v]: [FloatTensor<B>; 3],
    saved: FloatTensor<B>,
    grad: FloatTensor<B>,
    settings: AttentionSettings,
    limit: usize,
) -> (FloatTensor<B>, FloatTensor<B>, FloatTensor<B>) {
    let Some(block) = block::<B>(&q, &k, limit) else {
        return gradients::<B>([q, k, v], saved, grad, settings.scale);
    };
    let mut q_grads = Vec::new();
    let mut sums: Option<(FloatTensor<B>, FloatTensor<B>)> = None;
    for (start, end) in blocks::<B>(&q, block) {
        let [q, grad] = [&q, &grad].map(|x| rows::<B>(x, start, end));
        let probabilities = probabilities::<B>(q.clone(), k.clone(), settings);
        let inputs = [q, k.clone(), v.clone()];
        let (q_grad, k_grad, v_grad) = gradients::<B>(inputs, probabilities, grad, settings.scale);
        q_grads.push(q_grad);
        sums = Some(match sums {
            None => (k_grad, v_grad),
            Some((k_sum, v_sum)) => (B::float_add(k_sum, k_grad), B::float_add(v_sum, v_grad)),
        });
    }
    let q_grad = B::float_cat(q_grads, 2);
    let (k_grad, v_grad) = sums.unwrap_or((k, v));
    (q_grad, k_grad, v_grad)
}

/// [`backward`] where nothing was saved.
pub(super) fn backward_from_inputs<B: KnnOps>(
    [q, k, v]: [FloatTensor<B>; 3],
    grad: FloatTensor<B>,
    settings: AttentionSettings,
) -> (FloatTensor<B>, FloatTensor<B>, FloatTensor<B>) {
    let saved = match block::<B>(&q, &k, SCORES) {
        None => probabilities::<B>(q.clone(), k.clone(), settings),
        // Not looked at.
        Some(_) => rows::<B>(&q, 0, 1),
    };
    backward::<B>([q, k, v], saved, grad, settings, SCORES)
}

fn probabilities<B: KnnOps>(
    q: FloatTensor<B>,
    k: FloatTensor<B>,
    settings: AttentionSettings,
) -> FloatTensor<B> {
    let q = B::float_mul_scalar(q, Scalar::from(settings.scale));
    B::knn_softmax(
        B::float_matmul(q, B::float_swap_dims(k, 2, 3)),
        settings.kept,
    )
}

fn gradients<B: KnnOps>(
    [q, k, v]: [FloatTensor<B>; 3],
    probabilities: FloatTensor<B>,
    grad: FloatTensor<B>,
    scale: f64,
) -> (FloatTensor<B>, FloatTensor<B>, FloatTensor<B>) {
    let transposed = |x| B::float_swap_dims(x, 2, 3);
    let v_grad = B::float_matmul(transposed(probabilities.clone()), grad.clone());
    let weights = B::float_matmul(grad, transposed(v));
    let scores = B::knn_softmax_backward(probabilities, weights);
    let scores = B::float_mul_scalar(scores, Scalar::from(scale));
    let k_grad = B::float_matmul(transposed(scores.clone()), q);
    (B::float_matmul(scores, k), k_grad, v_grad)
}

/// Queries of a block, where the scores are too many to be made at once.
fn block<B: Backend>(q: &FloatTensor<B>, k: &FloatTensor<B>, limit: usize) -> Option<usize> {
    let [batch, heads, queries, _] = q.shape().dims();
    let of_a_query = batch * heads * k.shape()[2];
    (of_a_query * queries > limit).then(|| (limit / of_a_query.max(1)).max(1))
}

/// First query and end of every block.
fn blocks<B: Backend>(q: &FloatTensor<B>, block: usize) -> impl Iterator<Item = (usize, usize)> {
    let queries = q.shape()[2];
    let starts = (0..queries).step_by(block);
    starts.map(move |start| (start, (start + block).min(queries)))
}

/// Some of the tokens of `[batch, heads, tokens, head_dim]`.
fn rows<B: Backend>(x: &FloatTensor<B>, start: usize, end: usize) -> FloatTensor<B> {
    let all = |size: usize| Slice::from(0..size);
    let [batch, heads, _, dim] = x.shape().dims();
    B::float_slice(
        x.clone(),
        &[all(batch), all(heads), Slice::from(start..end), all(dim)],
    )
}

/// Queries, keys and values, each `[batch, heads, tokens, head_dim]`.
pub(super) fn split<B: Backend>(qkv: &FloatTensor<B>, heads: usize) -> [FloatTensor<B>; 3] {
    let [batch, tokens, width] = qkv.shape().dims();
    let dim = width / 3;
    [0, 1, 2].map(|part| {
        let all = |size: usize| Slice::from(0..size);
        let channels = Slice::from(part * dim..(part + 1) * dim);
        let part = B::float_slice(qkv.clone(), &[all(batch), all(tokens), channels]);
        let part = B::float_reshape(part, Shape::new([batch, tokens, heads, dim / heads]));
        B::float_swap_dims(part, 1, 2)
    })
}

#[cfg(test)]
mod tests {
    use burn::backend::{Flex, tensor::FloatTensor};
    use burn::tensor::Shape;

    use super::*;
    use crate::ops::buffer::{tensor, values_of};

    fn input(tokens: usize, seed: usize) -> FloatTensor<Flex> {
        let shape = Shape::new([2, 3, tokens, 8]);
        let values = (0..shape.num_elements())
            .map(|i| ((i * 7919 + seed * 104_729) % 2003) as f32 / 1000.0 - 1.0)
            .collect();
        tensor(values, shape)
    }

    fn settings(scale: f64, kept: usize) -> AttentionSettings {
        AttentionSettings {
            scale,
            kept,
            flash: false,
        }
    }

    /// Every block of queries sees all keys, so nothing but the order of sums may differ.
    #[test]
    fn blocks_of_queries_give_what_all_queries_at_once_give() {
        let (q, k, v) = (input(23, 1), input(17, 2), input(17, 3));
        let grad = input(23, 4);
        for kept in [1, 5, 17] {
            let run = |limit| {
                let inputs = || [q.clone(), k.clone(), v.clone()];
                let settings = settings(0.3, kept);
                let (out, saved) = forward::<Flex>(inputs(), settings, limit);
                let (a, b, c) = backward::<Flex>(inputs(), saved, grad.clone(), settings, limit);
                [out, a, b, c].map(|x| values_of(&x.to_contiguous()).to_vec())
            };
            let whole = run(usize::MAX);
            // One query at a time, some, and all but one.
            for limit in [1, 2 * 3 * 17 * 4, 2 * 3 * 17 * 22] {
                for (blocks, whole) in run(limit).iter().zip(&whole) {
                    assert_eq!(blocks.len(), whole.len());
                    for (a, b) in blocks.iter().zip(whole) {
                        assert!((a - b).abs() < 1e-5, "limit {limit}, k {kept}: {a} and {b}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_kept_does_not_grow_with_the_scores() {
        let (q, k, v) = (input(64, 1), input(64, 2), input(64, 3));
        let (_, saved) = forward::<Flex>(
            [q.clone(), k.clone(), v.clone()],
            settings(1.0, 9),
            usize::MAX,
        );
        assert_eq!(saved.shape().num_elements(), 2 * 3 * 64 * 64);
        let (_, saved) = forward::<Flex>([q, k, v], settings(1.0, 9), 1000);
        assert_eq!(saved.shape().num_elements(), 2 * 3 * 8);
    }
}
