//! k-NN softmax on the `flex` CPU backend: rows spread over rayon, a selection that does not
//! sort, and loops that the compiler vectorises for the CPU it finds at run time.

use burn::backend::ops::FloatTensorOps;
use burn::backend::{Flex, TensorMetadata, tensor::FloatTensor};
use burn::tensor::{DType, FloatDType};
use pulp::Arch;
use rayon::prelude::*;

use super::KnnOps;
use crate::ops::math::exp;

/// Rows are handed to a thread in blocks of about this many scores.
const BLOCK: usize = 16 * 1024;

/// Independent sums per row: the compiler may not reorder a single running sum of floats.
const LANES: usize = 16;

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
        let mut scores = scores.to_contiguous();
        let rows = (BLOCK / keys).max(1);
        let arch = Arch::new();
        scores
            .storage_mut::<f32>()
            .par_chunks_mut(rows * keys)
            .for_each_init(Vec::new, |scratch, block| {
                arch.dispatch(|| {
                    for row in block.chunks_exact_mut(keys) {
                        softmax_row(row, k, scratch);
                    }
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
        let mut grad = grad.to_contiguous();
        let rows = (BLOCK / keys).max(1);
        let arch = Arch::new();
        grad.storage_mut::<f32>()
            .par_chunks_mut(rows * keys)
            .zip(probabilities.storage::<f32>().par_chunks(rows * keys))
            .for_each(|(grad, probabilities)| {
                arch.dispatch(|| {
                    for (g, p) in grad
                        .chunks_exact_mut(keys)
                        .zip(probabilities.chunks_exact(keys))
                    {
                        backward_row(g, p);
                    }
                });
            });
        grad
    }
}

/// One row of scores becomes one row of probabilities.
#[inline(always)]
fn softmax_row(row: &mut [f32], k: usize, scratch: &mut Vec<f32>) {
    let max = row.iter().fold(f32::NEG_INFINITY, |max, &x| {
        // A NaN must win: it compares false with everything.
        if x > max || x.is_nan() { x } else { max }
    });
    // `max` may have been overwritten after a NaN, so ask the row itself.
    let nan = row.iter().fold(false, |nan, x| nan | x.is_nan());
    if nan || !max.is_finite() {
        row.fill(f32::NAN);
        return;
    }
    if k < row.len() {
        drop_below(row, k, scratch);
    }
    for x in row.iter_mut() {
        *x = exp(*x - max);
    }
    let scale = 1.0 / sum_by_lanes(row, |x| x);
    for x in row.iter_mut() {
        *x *= scale;
    }
}

/// Sets all but the `k` largest of a NaN-free row to -inf; of equal scores the first ones stay.
#[inline(always)]
fn drop_below(row: &mut [f32], k: usize, scratch: &mut Vec<f32>) {
    scratch.clear();
    // Adding +0 turns -0 into +0: `total_cmp` would tell the two apart.
    scratch.extend(row.iter().map(|x| x + 0.0));
    let at = row.len() - k;
    let (_, &mut threshold, larger) = scratch.select_nth_unstable_by(at, f32::total_cmp);
    let above = larger
        .iter()
        .fold(0usize, |n, &x| n + usize::from(x > threshold));
    let ties = row
        .iter()
        .fold(0usize, |n, &x| n + usize::from(x == threshold));
    if above + ties == k {
        // No tie at the boundary: a branch-free pass.
        for x in row.iter_mut() {
            *x = if *x >= threshold {
                *x
            } else {
                f32::NEG_INFINITY
            };
        }
    } else {
        let mut places = k - above;
        for x in row.iter_mut() {
            if *x == threshold && places > 0 {
                places -= 1;
            } else if *x <= threshold {
                *x = f32::NEG_INFINITY;
            }
        }
    }
}

/// `g <- p * (g - sum(p * g))`
#[inline(always)]
fn backward_row(grad: &mut [f32], probabilities: &[f32]) {
    let mut lanes = [0.0; LANES];
    let (g_main, g_rest) = grad.as_chunks::<LANES>();
    let (p_main, p_rest) = probabilities.as_chunks::<LANES>();
    for (g, p) in g_main.iter().zip(p_main) {
        for lane in 0..LANES {
            lanes[lane] += g[lane] * p[lane];
        }
    }
    let rest: f32 = g_rest.iter().zip(p_rest).map(|(g, p)| g * p).sum();
    let dot = lanes.iter().sum::<f32>() + rest;
    for (g, p) in grad.iter_mut().zip(probabilities) {
        *g = p * (*g - dot);
    }
}

#[inline(always)]
fn sum_by_lanes(row: &[f32], value: impl Fn(f32) -> f32) -> f32 {
    let mut lanes = [0.0; LANES];
    let (main, rest) = row.as_chunks::<LANES>();
    for chunk in main {
        for lane in 0..LANES {
            lanes[lane] += value(chunk[lane]);
        }
    }
    lanes.iter().sum::<f32>() + rest.iter().map(|&x| value(x)).sum::<f32>()
}
