//! k-NN softmax on the CPU: blocks of rows on all threads.

use burn::backend::{Flex, TensorMetadata, tensor::FloatTensor};
use rayon::prelude::*;

use super::KnnSoftmaxOps;
use crate::cast::{cast, to_f32};
use crate::cpu::softmax_row::{scale, softmax_gradient, softmax_row};
use crate::cpu::wide::wide;

/// Approximate number of scores per block of rows.
const BLOCK: usize = 16 * 1024;

impl KnnSoftmaxOps for Flex {
    fn knn_softmax(scores: FloatTensor<Self>, k: usize) -> FloatTensor<Self> {
        let shape = scores.shape();
        if shape.num_elements() == 0 {
            return scores;
        }
        let dtype = scores.dtype();
        let keys = shape[shape.num_dims() - 1];
        // In place if the scores have no other owner; otherwise `storage_mut` copies.
        let mut scores = into_contiguous(to_f32::<Self>(scores));
        let rows = (BLOCK / keys).max(1);
        scores
            .storage_mut::<f32>()
            .par_chunks_mut(rows * keys)
            .for_each_init(Vec::new, |scratch, rows| softmax(rows, keys, k, scratch));
        cast::<Self>(scores, dtype)
    }

    fn knn_softmax_backward(
        probabilities: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        scale: f64,
    ) -> FloatTensor<Self> {
        let shape = probabilities.shape();
        if shape.num_elements() == 0 {
            return probabilities;
        }
        let dtype = probabilities.dtype();
        let keys = shape[shape.num_dims() - 1];
        let probabilities = to_f32::<Self>(probabilities).to_contiguous();
        // The gradient may be a broadcast or permuted view.
        let mut grad = into_contiguous(to_f32::<Self>(grad));
        let rows = (BLOCK / keys).max(1);
        grad.storage_mut::<f32>()
            .par_chunks_mut(rows * keys)
            .zip(probabilities.storage::<f32>().par_chunks(rows * keys))
            .for_each(|(grad, p)| gradient(grad, p, keys, scale as f32));
        cast::<Self>(grad, dtype)
    }
}

/// The contiguous tensor; it is the only owner of its storage if `tensor` was.
fn into_contiguous(tensor: FloatTensor<Flex>) -> FloatTensor<Flex> {
    let copy = tensor.to_contiguous();
    drop(tensor);
    copy
}

wide! {
    /// Turns rows of scores into rows of probabilities.
    fn softmax<'a, simd: S>(
        rows: &'a mut [f32],
        keys: usize,
        k: usize,
        scratch: &'a mut Vec<f32>,
    ) {
        for row in rows.chunks_exact_mut(keys) {
            let state = softmax_row(simd, row, k, scratch);
            scale(row, state.scale);
        }
    }

    /// Turns rows of gradients of probabilities into rows of gradients of scores, multiplied by a factor.
    fn gradient<'a, simd: S>(
        grad: &'a mut [f32],
        probabilities: &'a [f32],
        keys: usize,
        factor: f32,
    ) {
        let rows = grad.chunks_exact_mut(keys);
        for (grad, p) in rows.zip(probabilities.chunks_exact(keys)) {
            softmax_gradient(simd, grad, p);
            if factor != 1.0 {
                scale(grad, factor);
            }
        }
    }
}
