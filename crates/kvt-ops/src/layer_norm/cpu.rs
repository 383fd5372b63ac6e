//! Layer normalisation on the CPU: blocks of rows on all threads.

use burn::backend::{Flex, TensorMetadata, tensor::FloatTensor};
use burn::tensor::{DType, Element, FloatDType, Shape, bf16};
use rayon::prelude::*;

use super::{LayerNormOps, one_per_row};
use crate::cast::{cast, to_f32};
use crate::contiguous::cpu::contiguous;
use crate::cpu::bf16::Number;
use crate::cpu::buffer::{
    par_map_copy, par_write_with, tensor, tensor_of, values_in, values_of, write_in_order,
};
use crate::cpu::round::{copy, copy_new};
use crate::cpu::simd::{dot, sum};
use crate::cpu::wide::wide;

/// Parts of the sums over the rows: a constant, so that the result does not depend on the number of threads.
const PARTS: usize = 16;

/// Rows that are normalised together, in the cache.
const ROWS: usize = 16;

impl LayerNormOps for Flex {
    fn fused_layer_norm(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        epsilon: f64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let dtype = x.dtype().into();
        Self::rounded_layer_norm(x, gamma, beta, epsilon, dtype)
    }

    fn rounded_layer_norm(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        epsilon: f64,
        dtype: FloatDType,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let layer = [gamma, beta];
        match dtype {
            FloatDType::BF16 => forward::<bf16>(x, layer, epsilon),
            _ => {
                let (out, mean, rstd) = forward::<f32>(x, layer, epsilon);
                (cast::<Self>(out, dtype.into()), mean, rstd)
            }
        }
    }

    fn fused_layer_norm_backward(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        mean: FloatTensor<Self>,
        rstd: FloatTensor<Self>,
        grad: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        Self::rounded_layer_norm_backward(x, gamma, mean, rstd, grad)
    }

    fn rounded_layer_norm_backward(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        mean: FloatTensor<Self>,
        rstd: FloatTensor<Self>,
        grad: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        match grad.dtype() {
            DType::BF16 => backward::<bf16>(x, gamma, &[mean, rstd], grad),
            _ => backward::<f32>(x, gamma, &[mean, rstd], to_f32::<Self>(grad)),
        }
    }
}

/// [`LayerNormOps::fused_layer_norm`], with an output in the type `T`.
fn forward<T: Number + Element>(
    x: FloatTensor<Flex>,
    layer: [FloatTensor<Flex>; 2],
    epsilon: f64,
) -> (FloatTensor<Flex>, FloatTensor<Flex>, FloatTensor<Flex>) {
    let [gamma, beta] = layer.map(|x| contiguous(to_f32::<Flex>(x)));
    let x = contiguous(to_f32::<Flex>(x));
    let shape = x.shape();
    let (width, part) = width_and_part(&shape);
    let empty = || FloatTensor::<Flex>::empty(one_per_row(&shape), DType::F32);
    let (mut mean, mut rstd) = (empty(), empty());
    let means = mean.storage_mut::<f32>().par_chunks_mut(part);
    let rstds = rstd.storage_mut::<f32>().par_chunks_mut(part);
    let (gamma, beta) = (values_of(&gamma), values_of(&beta));
    let values = values_of(&x);
    let parts = values.par_chunks(part * width).zip(means.zip(rstds));
    let scratch = || vec![0.0; ROWS * width];
    let out = par_write_with(
        values.len(),
        part * width,
        parts,
        scratch,
        |rows, out, part| {
            let (x, (mean, rstd)) = part;
            let mut statistics = mean.chunks_mut(ROWS).zip(rstd.chunks_mut(ROWS));
            write_in_order(out, ROWS * width, |out, number| {
                let rows = &mut rows[..out.len()];
                rows.copy_from_slice(&x[number * ROWS * width..][..out.len()]);
                if let Some((mean, rstd)) = statistics.next() {
                    normalise(rows, gamma, beta, epsilon as f32, mean, rstd);
                }
                copy_new::<f32, T>(rows, out)
            })
        },
    );
    (tensor_of(out, shape), mean, rstd)
}

/// [`LayerNormOps::fused_layer_norm_backward`], with a gradient in the type `A`.
fn backward<A: Number + Element>(
    x: FloatTensor<Flex>,
    gamma: FloatTensor<Flex>,
    statistics: &[FloatTensor<Flex>; 2],
    grad: FloatTensor<Flex>,
) -> (FloatTensor<Flex>, FloatTensor<Flex>, FloatTensor<Flex>) {
    let dtype = x.dtype();
    let [x, gamma] = [x, gamma].map(|x| contiguous(to_f32::<Flex>(x)));
    let (shape, grad) = (x.shape(), contiguous(grad));
    let (width, part) = width_and_part(&shape);
    let [means, rstds] = statistics.each_ref().map(|x| values_of(x).par_chunks(part));
    let mut sums = vec![[vec![0.0; width], vec![0.0; width]]; PARTS];
    let grads = values_in::<A>(&grad).par_chunks(part * width);
    let others = sums.par_iter_mut().zip(grads).zip(means).zip(rstds);
    let out = par_map_copy(
        values_of(&x),
        part * width,
        others,
        |out, (((sums, grad), mean), rstd)| {
            let mut scaled = vec![0.0; ROWS * width];
            let rows = out.chunks_mut(ROWS * width).zip(grad.chunks(ROWS * width));
            let statistics = mean.chunks(ROWS).zip(rstd.chunks(ROWS));
            for ((out, grad), (mean, rstd)) in rows.zip(statistics) {
                let scaled = &mut scaled[..out.len()];
                copy(grad, scaled);
                gradients(out, values_of(&gamma), mean, rstd, scaled, sums);
            }
        },
    );
    let mut totals = [0, 1].map(|_| FloatTensor::<Flex>::zeros(Shape::new([width]), DType::F32));
    for part in &sums {
        for (total, part) in totals.iter_mut().zip(part) {
            for (total, x) in total.storage_mut::<f32>().iter_mut().zip(part) {
                *total += x;
            }
        }
    }
    let [gamma_grad, beta_grad] = totals.map(|total| cast::<Flex>(total, dtype));
    (
        cast::<Flex>(tensor(out, shape), dtype),
        gamma_grad,
        beta_grad,
    )
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

    /// Replaces rows by their gradients, and overwrites `grad`, those of the output. Adds the gradients of gamma and beta over
    /// these rows to `sums`.
    fn gradients<'a, simd: S>(
        rows: &'a mut [f32],
        gamma: &'a [f32],
        mean: &'a [f32],
        rstd: &'a [f32],
        grad: &'a mut [f32],
        sums: &'a mut [Vec<f32>; 2],
    ) {
        let [gamma_grad, beta_grad] = sums;
        let width = gamma.len();
        let inv_width = 1.0 / width as f32;
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
    }
}

/// Values per row and rows per part.
fn width_and_part(shape: &Shape) -> (usize, usize) {
    let width = shape[shape.num_dims() - 1].max(1);
    let rows = shape.num_elements() / width;
    (width, rows.div_ceil(PARTS).max(1))
}
