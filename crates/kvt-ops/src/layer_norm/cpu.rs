//! Layer normalisation on the CPU: blocks of rows on all threads.

use burn::backend::{Flex, TensorMetadata, tensor::FloatTensor};
use burn::tensor::{DType, Shape};
use rayon::prelude::*;

use super::{LayerNormOps, one_per_row};
use crate::cast::{cast, to_f32};
use crate::contiguous::cpu::contiguous;
use crate::cpu::buffer::{par_map_copy, tensor, values_of};
use crate::cpu::simd::{dot, sum};
use crate::cpu::wide::wide;

/// Parts of the sums over the rows: a constant, so that the result does not depend on the number of threads.
const PARTS: usize = 16;

impl LayerNormOps for Flex {
    fn fused_layer_norm(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        epsilon: f64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let dtype = x.dtype();
        let [x, gamma, beta] = [x, gamma, beta].map(|x| contiguous(to_f32::<Self>(x)));
        let shape = x.shape();
        let (width, part) = width_and_part(&shape);
        let empty = || FloatTensor::<Self>::empty(one_per_row(&shape), DType::F32);
        let (mut mean, mut rstd) = (empty(), empty());
        let means = mean.storage_mut::<f32>().par_chunks_mut(part);
        let rstds = rstd.storage_mut::<f32>().par_chunks_mut(part);
        let (gamma, beta) = (values_of(&gamma), values_of(&beta));
        let statistics = means.zip(rstds);
        let out = par_map_copy(
            values_of(&x),
            part * width,
            statistics,
            |out, (mean, rstd)| {
                normalise(out, gamma, beta, epsilon as f32, mean, rstd);
            },
        );
        (cast::<Self>(tensor(out, shape), dtype), mean, rstd)
    }

    fn fused_layer_norm_backward(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        mean: FloatTensor<Self>,
        rstd: FloatTensor<Self>,
        grad: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let dtype = x.dtype();
        let [x, gamma, mut grad] = [x, gamma, grad].map(|x| contiguous(to_f32::<Self>(x)));
        let shape = x.shape();
        let (width, part) = width_and_part(&shape);
        let mut sums = vec![[Vec::new(), Vec::new()]; PARTS];
        let others = sums
            .par_iter_mut()
            .zip(grad.storage_mut::<f32>().par_chunks_mut(part * width))
            .zip(values_of(&mean).par_chunks(part))
            .zip(values_of(&rstd).par_chunks(part));
        let out = par_map_copy(
            values_of(&x),
            part * width,
            others,
            |out, (((sum, grad), mean), rstd)| {
                *sum = gradients(out, values_of(&gamma), mean, rstd, grad);
            },
        );
        let mut totals =
            [0, 1].map(|_| FloatTensor::<Self>::zeros(Shape::new([width]), DType::F32));
        for part in &sums {
            for (total, part) in totals.iter_mut().zip(part) {
                for (total, x) in total.storage_mut::<f32>().iter_mut().zip(part) {
                    *total += x;
                }
            }
        }
        let [gamma_grad, beta_grad] = totals.map(|total| cast::<Self>(total, dtype));
        let x_grad = cast::<Self>(tensor(out, shape), dtype);
        (x_grad, gamma_grad, beta_grad)
    }
}

wide! {
    /// Normalises rows in place, and writes the statistics of each.
    fn normalise<'a, simd: S>(
        rows: &'a mut [f32],
        gamma: &'a [f32],
        beta: &'a [f32],
        epsilon: f32,
        mean: &'a mut [f32],
        rstd: &'a mut [f32],
    ) {
        let width = gamma.len();
        let inv_width = 1.0 / width as f32;
        let rows = rows.chunks_exact_mut(width);
        for (out, (mean, rstd)) in rows.zip(mean.iter_mut().zip(rstd)) {
            *mean = sum(simd, out) * inv_width;
            for x in out.iter_mut() {
                *x -= *mean;
            }
            *rstd = 1.0 / (dot(simd, out, out) * inv_width + epsilon).sqrt();
            for ((out, gamma), beta) in out.iter_mut().zip(gamma).zip(beta) {
                *out = *out * *rstd * gamma + beta;
            }
        }
    }

    /// Replaces rows by their gradients, and overwrites `grad`, those of the output. Returns the gradients of gamma and beta over
    /// these rows.
    fn gradients<'a, simd: S>(
        rows: &'a mut [f32],
        gamma: &'a [f32],
        mean: &'a [f32],
        rstd: &'a [f32],
        grad: &'a mut [f32],
    ) -> [Vec<f32>; 2] {
        let width = gamma.len();
        let inv_width = 1.0 / width as f32;
        let (mut gamma_grad, mut beta_grad) = (vec![0.0; width], vec![0.0; width]);
        let rows = rows.chunks_exact_mut(width).zip(grad.chunks_exact_mut(width));
        for ((out, grad), (&mean, &rstd)) in rows.zip(mean.iter().zip(rstd)) {
            for x in out.iter_mut() {
                *x = (*x - mean) * rstd;
            }
            let sums = gamma_grad.iter_mut().zip(beta_grad.iter_mut());
            let scaled = grad.iter_mut().zip(gamma);
            for (((gamma_sum, beta_sum), (grad, gamma)), x_hat) in sums.zip(scaled).zip(out.iter())
            {
                *gamma_sum += *grad * x_hat;
                *beta_sum += *grad;
                *grad *= gamma;
            }
            let mean_g = sum(simd, grad) * inv_width;
            let mean_g_x_hat = dot(simd, grad, out) * inv_width;
            for (out, g) in out.iter_mut().zip(grad) {
                *out = (*g - mean_g - *out * mean_g_x_hat) * rstd;
            }
        }
        [gamma_grad, beta_grad]
    }
}

/// Values per row and rows per part.
fn width_and_part(shape: &Shape) -> (usize, usize) {
    let width = shape[shape.num_dims() - 1].max(1);
    let rows = shape.num_elements() / width;
    (width, rows.div_ceil(PARTS).max(1))
}
