//! Batch normalisation on the CPU: SIMD on all threads. No result depends on the number of threads.

use burn::backend::{Flex, TensorMetadata, tensor::FloatTensor};
use burn::tensor::Shape;
use rayon::prelude::*;

use super::{Batch, BatchNormOps, Settings};
use crate::contiguous::cpu::contiguous;
use crate::cpu::buffer::{par_map_copy, tensor, values_of};
use crate::cpu::wide::wide;
use crate::optional::Optional;

pub(crate) mod sums;

use sums::{Layout, centred_products, moments};

/// Approximate number of values per block.
const BLOCK: usize = 16 * 1024;

impl BatchNormOps for Flex {
    fn channel_statistics(x: FloatTensor<Self>) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let x = contiguous(x);
        let (mean, variance) = moments(values_of(&x), Layout::of(&x.shape()));
        (of_channels(mean), of_channels(variance))
    }

    fn normalise_channels(batch: Batch<Self>, residual: Optional<Self>) -> FloatTensor<Self> {
        let Batch {
            x,
            gamma,
            beta,
            mean,
            variance,
            settings,
        } = batch;
        let [x, gamma, beta, mean, variance] = [x, gamma, beta, mean, variance].map(contiguous);
        let rstd = rstd(values_of(&variance), settings);
        let scale = multiplied(&rstd, values_of(&gamma));
        let channels = Affine {
            mean: values_of(&mean),
            scale: &scale,
            shift: values_of(&beta),
        };
        let least = if settings.relu {
            0.0
        } else {
            f32::NEG_INFINITY
        };
        let (layout, shape) = (Layout::of(&x.shape()), x.shape());
        let residual = residual.get().map(contiguous);
        let residual = residual.as_ref().map(values_of);
        let (size, starts) = (layout.block(), layout.blocks());
        let out = par_map_copy(values_of(&x), size, starts, |block, first| {
            let start = layout.start(first);
            let residual = residual.map(|residual| &residual[start..start + block.len()]);
            normalise_block(&channels, block, residual, layout, first, least);
        });
        tensor(out, shape)
    }

    fn relu_gradient(out: FloatTensor<Self>, grad: FloatTensor<Self>) -> FloatTensor<Self> {
        let [out, grad] = [out, grad].map(contiguous);
        let blocks = values_of(&out).par_chunks(BLOCK);
        #[expect(
            clippy::redundant_closure,
            reason = "both slices of the function have one lifetime"
        )]
        let values = par_map_copy(values_of(&grad), BLOCK, blocks, |grad, out| pass(grad, out));
        tensor(values, out.shape())
    }

    fn normalise_channels_backward(
        batch: Batch<Self>,
        grad: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let Batch {
            x,
            gamma,
            mean,
            variance,
            settings,
            ..
        } = batch;
        let [x, gamma, mean, variance, grad] = [x, gamma, mean, variance, grad].map(contiguous);
        let (layout, shape) = (Layout::of(&x.shape()), x.shape());
        let (x, mean, grads) = (values_of(&x), values_of(&mean), values_of(&grad));
        let (sums, products) = centred_products(x, mean, grads, layout);
        let rstd = rstd(values_of(&variance), settings);
        // With `x_hat = (x - mean) rstd`, the gradient of x is
        // `gamma rstd (grad - mean(grad) - x_hat mean(grad x_hat))`; without the means if the statistics are given.
        let share = if settings.own_statistics {
            1.0 / layout.samples() as f32
        } else {
            0.0
        };
        let of_grad = multiplied(&rstd, values_of(&gamma));
        let slope = |i: usize| -of_grad[i] * rstd[i] * rstd[i] * products[i] * share;
        let terms = Terms {
            mean,
            of_x: (0..layout.channels).map(slope).collect(),
            constant: (0..layout.channels)
                .map(|i| -of_grad[i] * sums[i] * share)
                .collect(),
            of_grad,
        };
        let block = layout.block();
        let others = layout.blocks().zip(x.par_chunks(block));
        let x_grad = par_map_copy(grads, block, others, |grad, (first, x)| {
            replace_by_gradients(&terms, grad, x, layout, first);
        });
        let of_gamma = of_channels(multiplied(&products, &rstd));
        (tensor(x_grad, shape), of_gamma, of_channels(sums))
    }
}

wide! {
    /// Normalises a block whose first row or plane is number `first`, and adds the residual if there is one. Smaller results
    /// become `least`, NaN stays.
    fn normalise_block<'a>(
        channels: &'a Affine<'a>,
        block: &'a mut [f32],
        residual: Option<&'a [f32]>,
        layout: Layout,
        first: usize,
        least: f32,
    ) {
        let Some(residual) = residual else {
            channels.apply(block, layout, first, least);
            return;
        };
        channels.apply(block, layout, first, f32::NEG_INFINITY);
        for (x, residual) in block.iter_mut().zip(residual) {
            *x = at_least(least, *x + residual);
        }
    }

    /// Replaces the gradients of a block, whose first row or plane is number `first`, by those of x.
    fn replace_by_gradients<'a>(
        terms: &'a Terms<'a>,
        grad: &'a mut [f32],
        x: &'a [f32],
        layout: Layout,
        first: usize,
    ) {
        let Layout {
            channels, inner, ..
        } = layout;
        if inner == 1 {
            let rows = grad.chunks_exact_mut(channels);
            for (grad, x) in rows.zip(x.chunks_exact(channels)) {
                let factors = terms.of_grad.iter().zip(&terms.of_x);
                let others = factors.zip(terms.constant.iter().zip(terms.mean));
                for ((grad, x), ((of_grad, of_x), (constant, mean))) in
                    grad.iter_mut().zip(x).zip(others)
                {
                    *grad = *grad * of_grad + (x - mean) * of_x + constant;
                }
            }
            return;
        }
        let planes = grad.chunks_exact_mut(inner);
        for (i, (grad, x)) in planes.zip(x.chunks_exact(inner)).enumerate() {
            let channel = (first + i) % channels;
            let [of_grad, of_x, constant] =
                [&terms.of_grad, &terms.of_x, &terms.constant].map(|terms| terms[channel]);
            let mean = terms.mean[channel];
            for (grad, x) in grad.iter_mut().zip(x) {
                *grad = *grad * of_grad + (x - mean) * of_x + constant;
            }
        }
    }

    /// Keeps a gradient where the output of the ReLU is positive or NaN, as Burn's operation does.
    fn pass<'a>(grad: &'a mut [f32], out: &'a [f32]) {
        for (grad, out) in grad.iter_mut().zip(out) {
            *grad = if *out <= 0.0 { 0.0 } else { *grad };
        }
    }
}

/// The value, or `least` if it is smaller; NaN stays.
#[inline(always)]
fn at_least(least: f32, value: f32) -> f32 {
    if value < least { least } else { value }
}

fn of_channels(values: Vec<f32>) -> FloatTensor<Flex> {
    let shape = Shape::new([values.len()]);
    tensor(values, shape)
}

/// The product of two numbers of each channel.
fn multiplied(a: &[f32], b: &[f32]) -> Vec<f32> {
    a.iter().zip(b).map(|(a, b)| a * b).collect()
}

/// `1 / sqrt(variance + epsilon)` of each channel.
fn rstd(variance: &[f32], settings: Settings) -> Vec<f32> {
    let of = |variance: &f32| (1.0 / (f64::from(*variance) + settings.epsilon).sqrt()) as f32;
    variance.iter().map(of).collect()
}

/// `(x - mean) scale + shift` of each channel.
struct Affine<'a> {
    mean: &'a [f32],
    scale: &'a [f32],
    shift: &'a [f32],
}

impl Affine<'_> {
    /// Applies it to a block whose first row or plane is number `first`; smaller results become `least`, NaN stays.
    #[inline(always)]
    fn apply(&self, block: &mut [f32], layout: Layout, first: usize, least: f32) {
        let of =
            |x: f32, mean: f32, scale: f32, shift: f32| at_least(least, (x - mean) * scale + shift);
        let Self { mean, scale, shift } = self;
        if layout.inner == 1 {
            for row in block.chunks_exact_mut(layout.channels) {
                let channels = mean.iter().zip(*scale).zip(*shift);
                for (x, ((mean, scale), shift)) in row.iter_mut().zip(channels) {
                    *x = of(*x, *mean, *scale, *shift);
                }
            }
        } else {
            for (i, plane) in block.chunks_exact_mut(layout.inner).enumerate() {
                let channel = (first + i) % layout.channels;
                let (mean, scale, shift) = (mean[channel], scale[channel], shift[channel]);
                for x in plane {
                    *x = of(*x, mean, scale, shift);
                }
            }
        }
    }
}

/// What the gradient of x is composed of, for each channel.
struct Terms<'a> {
    mean: &'a [f32],
    /// The factor of the gradient of the output.
    of_grad: Vec<f32>,
    /// The factor of `x - mean`.
    of_x: Vec<f32>,
    constant: Vec<f32>,
}
