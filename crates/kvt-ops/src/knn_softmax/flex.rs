//! k-NN softmax on the `flex` CPU backend: rows spread over rayon, in SIMD for the CPU
//! that is found at run time.

use burn::backend::ops::FloatTensorOps;
use burn::backend::{Flex, TensorMetadata, tensor::FloatTensor};
use burn::tensor::{DType, FloatDType};
use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::KnnOps;
use crate::rows::{scale, softmax_gradient, weigh};

/// Rows are handed to a thread in blocks of about this many scores.
const BLOCK: usize = 16 * 1024;

impl KnnOps for Flex {
    fn knn_softmax(scores: FloatTensor<Self>, k: usize) -> FloatTensor<Self> {
        let shape = scores.shape();
        if shape.num_elements() == 0 {
            return scores;
        }
        let dtype = scores.dtype();
        if dtype != DType::F32 {
            let wide = Self::float_cast(scores, FloatDType::F32);
            return Self::float_cast(Self::knn_softmax(wide, k), dtype.into());
        }
        let keys = shape[shape.num_dims() - 1];
        // In place where nobody else holds the scores (`storage_mut` copies otherwise).
        let mut scores = contiguous(scores);
        let rows = (BLOCK / keys).max(1);
        let arch = Arch::new();
        scores
            .storage_mut::<f32>()
            .par_chunks_mut(rows * keys)
            .for_each_init(Vec::new, |scratch, rows| {
                arch.dispatch(Softmax {
                    rows,
                    keys,
                    k,
                    scratch,
                });
            });
        scores
    }

    fn knn_softmax_backward(
        probabilities: FloatTensor<Self>,
        grad: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let shape = probabilities.shape();
        if shape.num_elements() == 0 {
            return probabilities;
        }
        let dtype = probabilities.dtype();
        if dtype != DType::F32 {
            let p = Self::float_cast(probabilities, FloatDType::F32);
            let g = Self::float_cast(grad, FloatDType::F32);
            return Self::float_cast(Self::knn_softmax_backward(p, g), dtype.into());
        }
        let keys = shape[shape.num_dims() - 1];
        // The gradient may be a broadcast or permuted view.
        let probabilities = probabilities.to_contiguous();
        let mut grad = contiguous(grad);
        let rows = (BLOCK / keys).max(1);
        let arch = Arch::new();
        grad.storage_mut::<f32>()
            .par_chunks_mut(rows * keys)
            .zip(probabilities.storage::<f32>().par_chunks(rows * keys))
            .for_each(|(grad, probabilities)| {
                arch.dispatch(Gradient {
                    grad,
                    probabilities,
                    keys,
                });
            });
        grad
    }
}

/// Contiguous; of a tensor that is so already nobody else holds the storage for it.
fn contiguous(tensor: FloatTensor<Flex>) -> FloatTensor<Flex> {
    let copy = tensor.to_contiguous();
    drop(tensor);
    copy
}

/// Rows of scores become rows of probabilities.
struct Softmax<'a> {
    rows: &'a mut [f32],
    keys: usize,
    k: usize,
    scratch: &'a mut Vec<f32>,
}

impl WithSimd for Softmax<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        for row in self.rows.chunks_exact_mut(self.keys) {
            let state = weigh(simd, row, self.k, self.scratch);
            scale(row, state.scale);
        }
    }
}

/// Rows of gradients of probabilities become rows of gradients of scores.
struct Gradient<'a> {
    grad: &'a mut [f32],
    probabilities: &'a [f32],
    keys: usize,
}

impl WithSimd for Gradient<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let rows = self.grad.chunks_exact_mut(self.keys);
        for (grad, p) in rows.zip(self.probabilities.chunks_exact(self.keys)) {
            softmax_gradient(simd, grad, p);
        }
    }
}
