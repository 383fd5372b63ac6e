//! Attention composed of matrix products and [`KnnSoftmaxOps::knn_softmax`], for backends without an attention kernel.
//!
//! With few scores, the probabilities are computed once and saved for the gradient. With many, they are computed in
//! blocks of queries, and again for the gradient, so that only one block is in memory at a time, whatever the row
//! length. The memory of the device decides how many scores count as few.
//!
//! Half types are cast to f32 first: rounded scores would tie, and different keys would be kept.

#[cfg(feature = "export")]
use burn::backend::Capture;
use burn::backend::{Backend, Scalar, TensorMetadata, tensor::FloatTensor};
use burn::tensor::Slice;

use super::AttentionSettings;
use super::added::Added;
use crate::cast::{cast, to_f32};
use crate::knn_softmax::KnnSoftmaxOps;

/// Maximum number of scores in memory at a time, on a device that does not report its memory or has less than 32 GiB: 128 MiB in f32.
const SCORES: usize = 1 << 25;

/// On a larger device, the scores of one operation take at most one part in `SHARE` of its memory. Operations save their scores
/// for the gradient: the 36 blocks of the deepest VOLO together take a seventh of the memory.
#[cfg(any(test, feature = "cube"))]
const SHARE: u64 = 256;

/// A block of queries is a multiple of this where memory allows: the tile size of matrix products.
const TILE: usize = 64;

/// The gradients of q, k and v, and of a bias.
pub(super) type Gradients<B> = ([FloatTensor<B>; 3], Option<FloatTensor<B>>);

/// The output, and the probabilities if there are at most `limit` of them; otherwise a placeholder.
pub(super) fn forward<B: KnnSoftmaxOps>(
    inputs: [FloatTensor<B>; 3],
    added: &Added<B>,
    settings: AttentionSettings,
    limit: usize,
) -> (FloatTensor<B>, FloatTensor<B>) {
    let dtype = inputs[0].dtype();
    let [q, k, v] = inputs.map(to_f32::<B>);
    let Some(block) = block::<B>(&q, &k, limit) else {
        let probabilities = probabilities::<B>(q, k, added, settings);
        let out = B::float_matmul(probabilities.clone(), v);
        return (cast::<B>(out, dtype), probabilities);
    };
    let blocks = blocks::<B>(&q, block);
    // Placeholder: this path recomputes everything in backward.
    let saved = rows::<B>(&q, 0, 1);
    let out = blocks.map(|(start, end)| {
        let q = rows::<B>(&q, start, end);
        let added = added.rows(start, end);
        let probabilities = probabilities::<B>(q, k.clone(), &added, settings);
        B::float_matmul(probabilities, v.clone())
    });
    (cast::<B>(B::float_cat(out.collect(), 2), dtype), saved)
}

/// The gradients. `saved` comes from [`forward`] with the same `added`, `settings` and `limit`.
pub(super) fn backward<B: KnnSoftmaxOps>(
    inputs: [FloatTensor<B>; 3],
    added: &Added<B>,
    saved: FloatTensor<B>,
    d_out: FloatTensor<B>,
    settings: AttentionSettings,
    limit: usize,
) -> Gradients<B> {
    let dtype = inputs[0].dtype();
    let [q, k, v] = inputs.map(to_f32::<B>);
    let d_out = to_f32::<B>(d_out);
    let in_type = |grads: [FloatTensor<B>; 3]| grads.map(|x| cast::<B>(x, dtype));
    let Some(block) = block::<B>(&q, &k, limit) else {
        let (grads, bias) = gradients::<B>([q, k, v], added, saved, d_out, settings.scale);
        return (in_type(grads), added.join(bias.into_iter().collect()));
    };
    let (mut q_grads, mut bias_grads) = (Vec::new(), Vec::new());
    let mut sums: Option<(FloatTensor<B>, FloatTensor<B>)> = None;
    for (start, end) in blocks::<B>(&q, block) {
        let [q, d_out] = [&q, &d_out].map(|x| rows::<B>(x, start, end));
        let added = added.rows(start, end);
        let probabilities = probabilities::<B>(q.clone(), k.clone(), &added, settings);
        let inputs = [q, k.clone(), v.clone()];
        let ([q_grad, k_grad, v_grad], bias_grad) =
            gradients::<B>(inputs, &added, probabilities, d_out, settings.scale);
        q_grads.push(q_grad);
        bias_grads.extend(bias_grad);
        sums = Some(match sums {
            None => (k_grad, v_grad),
            Some((k_sum, v_sum)) => (B::float_add(k_sum, k_grad), B::float_add(v_sum, v_grad)),
        });
    }
    let q_grad = B::float_cat(q_grads, 2);
    let (k_grad, v_grad) = sums.unwrap_or((k, v));
    (in_type([q_grad, k_grad, v_grad]), added.join(bias_grads))
}

/// [`backward`] without a saved tensor or a bias or mask.
#[cfg(any(test, feature = "cube"))]
pub(super) fn backward_from_inputs<B: KnnSoftmaxOps>(
    [q, k, v]: [FloatTensor<B>; 3],
    d_out: FloatTensor<B>,
    settings: AttentionSettings,
) -> [FloatTensor<B>; 3] {
    let added = Added::Nothing;
    let limit = limit::<B>(&q);
    let saved = match block::<B>(&q, &k, limit) {
        None => {
            let [q, k] = [&q, &k].map(|x| to_f32::<B>(x.clone()));
            probabilities::<B>(q, k, &added, settings)
        }
        // Placeholder: blocks are recomputed.
        Some(_) => rows::<B>(&q, 0, 1),
    };
    backward::<B>([q, k, v], &added, saved, d_out, settings, limit).0
}

/// `softmax(top_k(scale q k^T + bias))` over the visible keys.
fn probabilities<B: KnnSoftmaxOps>(
    q: FloatTensor<B>,
    k: FloatTensor<B>,
    added: &Added<B>,
    settings: AttentionSettings,
) -> FloatTensor<B> {
    let q = B::float_mul_scalar(q, Scalar::from(settings.scale));
    let scores = B::float_matmul(q, B::float_swap_dims(k, 2, 3));
    B::knn_softmax(added.add(scores), settings.kept)
}

/// The gradients from the probabilities and the gradient of the output. The gradient of the bias is in f32.
fn gradients<B: KnnSoftmaxOps>(
    [q, k, v]: [FloatTensor<B>; 3],
    added: &Added<B>,
    probabilities: FloatTensor<B>,
    d_out: FloatTensor<B>,
    scale: f64,
) -> Gradients<B> {
    let transposed = |x| B::float_swap_dims(x, 2, 3);
    let v_grad = B::float_matmul(transposed(probabilities.clone()), d_out.clone());
    let d_weights = B::float_matmul(d_out, transposed(v));
    // The gradient of a bias is the gradient of the unscaled scores. Without a bias, scaling is part of the softmax backward.
    let within = if added.has_bias() { 1.0 } else { scale };
    let d_scores = B::knn_softmax_backward(probabilities, d_weights, within);
    // A hidden score has a zero gradient, even in a row with NaN.
    let d_scores = added.hide(d_scores, 0.0);
    let bias_grad = added.bias_gradient(&d_scores);
    let scaled = |x| B::float_mul_scalar(x, Scalar::from(scale));
    let ([_, _, queries, dim], keys) = (q.shape().dims(), k.shape()[2]);
    // Scales the smaller: the gradient of the scores, or the gradients of q and k.
    let late = added.has_bias() && queries * keys > (queries + keys) * dim;
    let d_scores = if added.has_bias() && !late {
        scaled(d_scores)
    } else {
        d_scores
    };
    let k_grad = B::float_matmul(transposed(d_scores.clone()), q);
    let mut grads = [B::float_matmul(d_scores, k), k_grad];
    if late {
        grads = grads.map(scaled);
    }
    let [q_grad, k_grad] = grads;
    ([q_grad, k_grad, v_grad], bias_grad)
}

/// Maximum number of scores in memory at a time on the device of a tensor.
pub(super) fn limit<B: Backend>(x: &FloatTensor<B>) -> usize {
    // A recorded pass stores nothing; its operations must be the same for all sizes of a batch.
    #[cfg(feature = "export")]
    if (&x.device() as &dyn std::any::Any).is::<burn::backend::tensor::Device<Capture>>() {
        return usize::MAX;
    }
    #[cfg(feature = "cube")]
    if let Some(memory) = memory(&x.device()) {
        return limit_of(memory.max_memory(), memory.max_page_size);
    }
    #[cfg(not(feature = "cube"))]
    let _ = x;
    SCORES
}

/// The memory of a CubeCL device; the device is the same with and without fusion.
#[cfg(feature = "cube")]
fn memory(device: &dyn std::any::Any) -> Option<cubecl::ir::MemoryDeviceProperties> {
    let device = device.downcast_ref::<burn_cubecl::CubeDevice>()?;
    Some(device.client().properties().memory.clone())
}

/// [`limit`] of a device with `bytes` of memory, if it reports them, and at most `tensor` bytes per tensor.
#[cfg(any(test, feature = "cube"))]
fn limit_of(bytes: Option<u64>, tensor: u64) -> usize {
    let number = size_of::<f32>() as u64;
    let scores = bytes.unwrap_or(0) / SHARE / number;
    let scores = scores.max(SCORES as u64).min(tensor / number);
    usize::try_from(scores).unwrap_or(usize::MAX)
}

/// Queries per block; `None` if the scores are few enough for one block.
fn block<B: Backend>(q: &FloatTensor<B>, k: &FloatTensor<B>, limit: usize) -> Option<usize> {
    let [batch, heads, queries, _] = q.shape().dims();
    let of_a_query = batch * heads * k.shape()[2];
    (of_a_query * queries > limit).then(|| {
        let most = (limit / of_a_query.max(1)).max(1);
        match most / TILE {
            0 => most,
            tiles => tiles * TILE,
        }
    })
}

/// The first query and the end of each block.
fn blocks<B: Backend>(q: &FloatTensor<B>, block: usize) -> impl Iterator<Item = (usize, usize)> {
    let queries = q.shape()[2];
    let starts = (0..queries).step_by(block);
    starts.map(move |start| (start, (start + block).min(queries)))
}

/// A range of tokens of `[batch, heads, tokens, head_dim]`.
fn rows<B: Backend>(x: &FloatTensor<B>, start: usize, end: usize) -> FloatTensor<B> {
    let all = |size: usize| Slice::from(0..size);
    let [batch, heads, _, dim] = x.shape().dims();
    B::float_slice(
        x.clone(),
        &[all(batch), all(heads), Slice::from(start..end), all(dim)],
    )
}

#[cfg(test)]
mod tests;
