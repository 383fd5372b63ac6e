//! Depthwise convolution on the CPU: every element of a kernel adds a shifted, scaled image to the output. Half types are
//! widened, and the output is rounded once.

use burn::backend::{Flex, TensorMetadata, tensor::FloatTensor};
use burn::tensor::{DType, Shape};
use rayon::prelude::*;

use super::{DepthwiseOps, burn_backward, burn_forward};
use crate::cast::{cast, to_f32};
use crate::contiguous::cpu::contiguous;
use crate::cpu::buffer::{par_build, tensor, values_of};
use crate::cpu::wide::wide;
use crate::cpu::windows::Windows;

impl DepthwiseOps for Flex {
    fn depthwise(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        stride: usize,
        padding: usize,
    ) -> FloatTensor<Self> {
        let dtype = x.dtype();
        if dtype == DType::F64 || x.shape().num_elements() == 0 {
            return burn_forward::<Self>(x, weight, stride, padding);
        }
        let [x, weight] = [x, weight].map(|x| contiguous(to_f32::<Self>(x)));
        let geometry = Geometry::new(&x, &weight, stride, padding);
        let kernels = values_of(&weight);
        let images = values_of(&x).par_chunks(geometry.input()).enumerate();
        let len = images.len() * geometry.filters * geometry.output();
        let out = par_build(
            len,
            geometry.filters * geometry.output(),
            images,
            |out, (number, image)| {
                let channel = number % geometry.channels;
                for (filter, out) in out.chunks_exact_mut(geometry.output()).enumerate() {
                    convolve(
                        geometry.windows,
                        image,
                        geometry.kernel(kernels, channel, filter),
                        out,
                    );
                }
            },
        );
        let outputs = geometry.channels * geometry.filters;
        let shape = [
            x.shape()[0],
            outputs,
            geometry.windows.rows,
            geometry.windows.columns,
        ];
        cast::<Self>(tensor(out, Shape::new(shape)), dtype)
    }

    fn depthwise_backward(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        stride: usize,
        padding: usize,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let dtype = x.dtype();
        if dtype == DType::F64 || x.shape().num_elements() == 0 {
            return burn_backward::<Self>(x, weight, grad, stride, padding);
        }
        let [x, weight, grad] = [x, weight, grad].map(|x| contiguous(to_f32::<Self>(x)));
        let geometry = Geometry::new(&x, &weight, stride, padding);
        let (images, grads) = (values_of(&x), values_of(&grad));
        let of_images = geometry.image_gradient(values_of(&weight), grads);
        let of_kernels = geometry.kernel_gradient(images, grads);
        (
            cast::<Self>(tensor(of_images, x.shape()), dtype),
            cast::<Self>(tensor(of_kernels, weight.shape()), dtype),
        )
    }
}

/// The sizes of a convolution.
#[derive(Clone, Copy)]
struct Geometry {
    batch: usize,
    channels: usize,
    /// Filters per channel.
    filters: usize,
    windows: Windows,
}

impl Geometry {
    fn new(
        x: &FloatTensor<Flex>,
        weight: &FloatTensor<Flex>,
        stride: usize,
        padding: usize,
    ) -> Self {
        let [batch, channels, height, width] = x.shape().dims();
        let [outputs, _, size, _] = weight.shape().dims();
        Self {
            batch,
            channels,
            filters: outputs / channels,
            windows: Windows::new([height, width], size, stride, padding),
        }
    }

    /// Values per input channel.
    fn input(&self) -> usize {
        self.windows.pixels()
    }

    /// Values per output channel.
    fn output(&self) -> usize {
        self.windows.positions()
    }

    fn kernel<'a>(&self, kernels: &'a [f32], channel: usize, filter: usize) -> &'a [f32] {
        let area = self.windows.area();
        let number = channel * self.filters + filter;
        &kernels[number * area..(number + 1) * area]
    }

    /// The gradient of x.
    fn image_gradient(&self, kernels: &[f32], grads: &[f32]) -> Vec<f32> {
        let grads = grads.par_chunks(self.filters * self.output()).enumerate();
        let len = self.batch * self.channels * self.input();
        par_build(len, self.input(), grads, |out, (number, grads)| {
            let channel = number % self.channels;
            for (filter, grad) in grads.chunks_exact(self.output()).enumerate() {
                spread(
                    self.windows,
                    grad,
                    self.kernel(kernels, channel, filter),
                    out,
                );
            }
        })
    }

    /// The gradient of the weight. One thread sums the gradient of a filter over the whole batch, so that the
    /// result does not depend on the number of threads.
    fn kernel_gradient(&self, images: &[f32], grads: &[f32]) -> Vec<f32> {
        let outputs = self.channels * self.filters;
        let area = self.windows.area();
        let numbers = (0..outputs).into_par_iter();
        par_build(outputs * area, area, numbers, |out, number| {
            for image in 0..self.batch {
                let input = (image * self.channels + number / self.filters) * self.input();
                let input = &images[input..input + self.input()];
                let grad = (image * outputs + number) * self.output();
                add_products(self.windows, input, &grads[grad..grad + self.output()], out);
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
            add_back(out, grad, windows.stride, kernel[at]);
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

/// Adds `grad`, multiplied by a factor, to every `stride`-th value of `out`.
#[inline(always)]
fn add_back(out: &mut [f32], grad: &[f32], stride: usize, factor: f32) {
    if stride == 1 {
        for (out, x) in out.iter_mut().zip(grad) {
            *out += factor * x;
        }
    } else {
        for (out, x) in out.iter_mut().step_by(stride).zip(grad) {
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
