//! Attention composed of matrix products and [`KnnOps::knn_softmax`], for backends without a kernel of
//! their own.
//!
//! Few scores are turned into probabilities once, which the gradient gets. Many are made block of
//! queries by block of queries, and again for the gradient, which then gets nothing: beside inputs
//! and outputs the memory is that of one block, whatever the length of the rows.
//!
//! Half types are widened first: rounded scores tie where others do not, and other keys would be kept.

use burn::backend::{Backend, Scalar, TensorMetadata, tensor::FloatTensor};
use burn::tensor::{Shape, Slice};

use super::{AttentionSettings, KnnOps};
use crate::{narrow, widen};

/// Scores that are kept, or made at a time: 128 MiB of them in f32.
pub(super) const SCORES: usize = 1 << 25;

/// Output, and the probabilities if there are at most `limit` of them; else a single number.
pub(super) fn forward<B: KnnOps>(
    inputs: [FloatTensor<B>; 3],
    settings: AttentionSettings,
    limit: usize,
) -> (FloatTensor<B>, FloatTensor<B>) {
    let dtype = inputs[0].dtype();
    let [q, k, v] = inputs.map(widen::<B>);
    let Some(block) = block::<B>(&q, &k, limit) else {
        let probabilities = probabilities::<B>(q, k, settings);
        let out = B::float_matmul(probabilities.clone(), v);
        return (narrow::<B>(out, dtype), probabilities);
    };
    let blocks = blocks::<B>(&q, block);
    // What is saved must exist; nobody looks at it.
    let saved = rows::<B>(&q, 0, 1);
    let out = blocks.map(|(start, end)| {
        let q = rows::<B>(&q, start, end);
        let probabilities = probabilities::<B>(q, k.clone(), settings);
        B::float_matmul(probabilities, v.clone())
    });
    (narrow::<B>(B::float_cat(out.collect(), 2), dtype), saved)
}

/// The gradients of q, k and v; `saved`, `settings` and `limit` are those of [`forward`].
pub(super) fn backward<B: KnnOps>(
    inputs: [FloatTensor<B>; 3],
    saved: FloatTensor<B>,
    grad: FloatTensor<B>,
    settings: AttentionSettings,
    limit: usize,
) -> (FloatTensor<B>, FloatTensor<B>, FloatTensor<B>) {
    let dtype = inputs[0].dtype();
    let [q, k, v] = inputs.map(widen::<B>);
    let (q, k, v) = wide_backward::<B>([q, k, v], saved, widen::<B>(grad), settings, limit);
    let narrow = |x| narrow::<B>(x, dtype);
    (narrow(q), narrow(k), narrow(v))
}

/// [`backward`] in f32.
fn wide_backward<B: KnnOps>(
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
        None => probabilities::<B>(widen::<B>(q.clone()), widen::<B>(k.clone()), settings),
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
mod tests;
