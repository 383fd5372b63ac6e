//! Depthwise convolution on the CPU, of each channel by itself: every element of a kernel adds a shifted, scaled image to the output.

use rayon::prelude::*;

use super::{Geometry, add_bias};
use crate::cpu::buffer::par_build;
use crate::cpu::wide::wide;
use crate::cpu::windows::{Windows, add_apart};

/// For groups of one input channel, of which each has some outputs.
impl Geometry {
    pub(super) fn is_depthwise(&self) -> bool {
        self.inputs == 1 && self.groups > 1
    }

    pub(super) fn depthwise(
        &self,
        images: &[f32],
        kernels: &[f32],
        bias: Option<&[f32]>,
    ) -> Vec<f32> {
        let (area, positions) = (self.windows.area(), self.windows.positions());
        let of_channel = self.outputs * positions;
        let images = images.par_chunks(self.windows.pixels()).enumerate();
        let len = images.len() * of_channel;
        par_build(len, of_channel, images, |out, (number, image)| {
            let first = number % self.groups * self.outputs;
            let kernels = kernels[first * area..].chunks_exact(area);
            for (filter, (out, kernel)) in out.chunks_exact_mut(positions).zip(kernels).enumerate()
            {
                convolve(self.windows, image, kernel, out);
                add_bias(out, bias.map(|bias| bias[first + filter]));
            }
        })
    }

    pub(super) fn depthwise_image_gradient(&self, kernels: &[f32], grads: &[f32]) -> Vec<f32> {
        let (area, positions) = (self.windows.area(), self.windows.positions());
        let grads = grads.par_chunks(self.outputs * positions).enumerate();
        let (len, pixels) = (self.batch * self.input(), self.windows.pixels());
        par_build(len, pixels, grads, |out, (number, grads)| {
            let first = number % self.groups * self.outputs;
            let kernels = kernels[first * area..].chunks_exact(area);
            for (grad, kernel) in grads.chunks_exact(positions).zip(kernels) {
                spread(self.windows, grad, kernel, out);
            }
        })
    }

    /// One thread sums the gradient of a filter over the whole batch, so that the result does not depend on the number of threads.
    pub(super) fn depthwise_weight_gradient(&self, images: &[f32], grads: &[f32]) -> Vec<f32> {
        let (pixels, positions) = (self.windows.pixels(), self.windows.positions());
        let (outputs, area) = (self.groups * self.outputs, self.windows.area());
        let numbers = (0..outputs).into_par_iter();
        par_build(outputs * area, area, numbers, |out, number| {
            for image in 0..self.batch {
                let input = (image * self.groups + number / self.outputs) * pixels;
                let grad = (image * outputs + number) * positions;
                let (input, grad) = (&images[input..][..pixels], &grads[grad..][..positions]);
                add_products(self.windows, input, grad, out);
            }
        })
    }
}

wide! {
    /// Adds to an output channel the convolution of an image channel with a kernel.
    fn convolve<'a>(windows: Windows, image: &'a [f32], kernel: &'a [f32], out: &'a mut [f32]) {
        windows.for_each(|at, span| {
            let row = &image[span.input..span.input_end(windows.stride)];
            let out = &mut out[span.output..span.output + span.len];
            add(out, row, windows.stride, kernel[at]);
        });
    }

    /// Adds to the gradient of an image channel, in `out`, that of an output channel.
    fn spread<'a>(windows: Windows, grad: &'a [f32], kernel: &'a [f32], out: &'a mut [f32]) {
        windows.for_each(|at, span| {
            let out = &mut out[span.input..span.input_end(windows.stride)];
            let grad = &grad[span.output..span.output + span.len];
            add_apart(out, grad, windows.stride, kernel[at]);
        });
    }

    /// Adds to the gradient of a kernel, in `out`, that of an image.
    fn add_products<'a>(windows: Windows, image: &'a [f32], grad: &'a [f32], out: &'a mut [f32]) {
        windows.for_each(|at, span| {
            let row = &image[span.input..span.input_end(windows.stride)];
            let grad = &grad[span.output..span.output + span.len];
            out[at] += strided_dot(row, grad, windows.stride);
        });
    }
}

/// Adds every `stride`-th value of `row`, multiplied by a factor.
#[inline(always)]
fn add(out: &mut [f32], row: &[f32], stride: usize, factor: f32) {
    if stride == 1 {
        for (out, x) in out.iter_mut().zip(row) {
            *out += factor * x;
        }
    } else {
        for (out, x) in out.iter_mut().zip(row.iter().step_by(stride)) {
            *out += factor * x;
        }
    }
}

/// The dot product of every `stride`-th value of `row` with `grad`: at stride 1 in eight partial sums, since a single
/// sum could not be vectorised.
#[inline(always)]
fn strided_dot(row: &[f32], grad: &[f32], stride: usize) -> f32 {
    if stride > 1 {
        let pairs = row.iter().step_by(stride).zip(grad);
        return pairs.map(|(x, grad)| x * grad).sum();
    }
    let mut sums = [0.0; 8];
    let (rows, grads) = (row.chunks_exact(8), grad.chunks_exact(8));
    let rest = rows.remainder().iter().zip(grads.remainder());
    let rest: f32 = rest.map(|(x, grad)| x * grad).sum();
    for (row, grad) in rows.zip(grads) {
        for ((sum, x), grad) in sums.iter_mut().zip(row).zip(grad) {
            *sum += x * grad;
        }
    }
    sums.iter().sum::<f32>() + rest
}
