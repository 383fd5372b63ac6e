//! Depthwise convolution on the `flex` CPU backend: every element of a kernel adds a shifted and
//! scaled image to the output.

use burn::backend::{Flex, TensorMetadata, ops::ModuleOps, tensor::FloatTensor};
use burn::tensor::{DType, Shape};
use pulp::Arch;
use rayon::prelude::*;

use super::{DepthwiseOps, options};
use crate::buffer::{made, tensor, values_of};

impl DepthwiseOps for Flex {
    fn depthwise(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        stride: usize,
        padding: usize,
    ) -> FloatTensor<Self> {
        if x.dtype() != DType::F32 || x.shape().num_elements() == 0 {
            let options = options(x.shape()[1], stride, padding);
            return Self::conv2d(x, weight, None, options);
        }
        let [x, weight] = [x, weight].map(|tensor| tensor.to_contiguous());
        let moves = Moves::new(&x, &weight, stride, padding);
        let kernels = values_of(&weight);
        let images = values_of(&x).par_chunks(moves.input()).enumerate();
        let len = images.len() * moves.filters * moves.output();
        let out = made(
            len,
            moves.filters * moves.output(),
            images,
            |out, (number, image)| {
                let channel = number % moves.channels;
                Arch::new().dispatch(|| {
                    for (filter, out) in out.chunks_exact_mut(moves.output()).enumerate() {
                        let kernel = moves.kernel(kernels, channel, filter);
                        moves.for_each(|at, place| {
                            let row = &image[place.input..place.input_end(stride)];
                            let out = &mut out[place.output..place.output + place.len];
                            add(out, row, stride, kernel[at]);
                        });
                    }
                });
            },
        );
        let outputs = moves.channels * moves.filters;
        let shape = [x.shape()[0], outputs, moves.rows, moves.columns];
        tensor(out, Shape::new(shape))
    }

    fn depthwise_backward(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        stride: usize,
        padding: usize,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        if x.dtype() != DType::F32 || x.shape().num_elements() == 0 {
            let options = options(x.shape()[1], stride, padding);
            return (
                Self::conv2d_x_backward(x.clone(), weight.clone(), grad.clone(), options.clone()),
                Self::conv2d_weight_backward(x, weight, grad, options),
            );
        }
        let [x, weight, grad] = [x, weight, grad].map(|tensor| tensor.to_contiguous());
        let moves = Moves::new(&x, &weight, stride, padding);
        let (images, grads) = (values_of(&x), values_of(&grad));
        (
            tensor(moves.image_gradient(values_of(&weight), grads), x.shape()),
            tensor(moves.kernel_gradient(images, grads), weight.shape()),
        )
    }
}

/// How kernels move over images.
#[derive(Clone, Copy)]
struct Moves {
    batch: usize,
    channels: usize,
    filters: usize,
    height: usize,
    width: usize,
    size: usize,
    stride: usize,
    padding: usize,
    rows: usize,
    columns: usize,
}

/// A part of a row that one element of a kernel sees: `len` outputs from `output` on are made from
/// the inputs from `input` on, a stride apart.
#[derive(Clone, Copy)]
struct Place {
    input: usize,
    output: usize,
    len: usize,
}

impl Place {
    #[inline(always)]
    fn input_end(self, stride: usize) -> usize {
        self.input + (self.len - 1) * stride + 1
    }
}

impl Moves {
    fn new(
        x: &FloatTensor<Flex>,
        weight: &FloatTensor<Flex>,
        stride: usize,
        padding: usize,
    ) -> Self {
        let [batch, channels, height, width] = x.shape().dims();
        let [outputs, _, size, _] = weight.shape().dims();
        let steps = |length: usize| (length + 2 * padding - size) / stride + 1;
        Self {
            batch,
            channels,
            filters: outputs / channels,
            height,
            width,
            size,
            stride,
            padding,
            rows: steps(height),
            columns: steps(width),
        }
    }

    /// Pixels of an image's channel.
    fn input(&self) -> usize {
        self.height * self.width
    }

    /// Values of an output's channel.
    fn output(&self) -> usize {
        self.rows * self.columns
    }

    #[inline(always)]
    fn kernel<'a>(&self, kernels: &'a [f32], channel: usize, filter: usize) -> &'a [f32] {
        let area = self.size * self.size;
        let number = channel * self.filters + filter;
        &kernels[number * area..(number + 1) * area]
    }

    /// Calls `visit` with each element of a kernel and each part of a row that it sees.
    #[inline(always)]
    fn for_each(&self, mut visit: impl FnMut(usize, Place)) {
        for at in 0..self.size * self.size {
            let (first_row, rows) = self.seen(at / self.size, self.height, self.rows);
            let (first, len) = self.seen(at % self.size, self.width, self.columns);
            if len == 0 {
                continue;
            }
            let column = first * self.stride + at % self.size - self.padding;
            for row in first_row..first_row + rows {
                let input = row * self.stride + at / self.size - self.padding;
                let place = Place {
                    input: input * self.width + column,
                    output: row * self.columns + first,
                    len,
                };
                visit(at, place);
            }
        }
    }

    /// The first output along one direction whose element `at` of the kernel lies within the image,
    /// and how many there are.
    #[inline(always)]
    fn seen(&self, at: usize, length: usize, outputs: usize) -> (usize, usize) {
        let first = self.padding.saturating_sub(at).div_ceil(self.stride);
        let end = match (length + self.padding).checked_sub(at + 1) {
            Some(room) => (room / self.stride + 1).min(outputs),
            None => 0,
        };
        (first, end.saturating_sub(first))
    }

    fn image_gradient(&self, kernels: &[f32], grads: &[f32]) -> Vec<f32> {
        let grads = grads.par_chunks(self.filters * self.output()).enumerate();
        let len = self.batch * self.channels * self.input();
        made(len, self.input(), grads, |out, (number, grads)| {
            let channel = number % self.channels;
            Arch::new().dispatch(|| {
                for (filter, grad) in grads.chunks_exact(self.output()).enumerate() {
                    let kernel = self.kernel(kernels, channel, filter);
                    self.for_each(|at, place| {
                        let out = &mut out[place.input..place.input_end(self.stride)];
                        let grad = &grad[place.output..place.output + place.len];
                        add_back(out, grad, self.stride, kernel[at]);
                    });
                }
            });
        })
    }

    /// Each thread sums the gradient of a filter over the whole batch: the result does not depend on
    /// how many there are.
    fn kernel_gradient(&self, images: &[f32], grads: &[f32]) -> Vec<f32> {
        let outputs = self.channels * self.filters;
        let area = self.size * self.size;
        let numbers = (0..outputs).into_par_iter();
        made(outputs * area, area, numbers, |out, number| {
            Arch::new().dispatch(|| {
                for image in 0..self.batch {
                    let input = (image * self.channels + number / self.filters) * self.input();
                    let input = &images[input..input + self.input()];
                    let grad = (image * outputs + number) * self.output();
                    let grad = &grads[grad..grad + self.output()];
                    self.for_each(|at, place| {
                        let row = &input[place.input..place.input_end(self.stride)];
                        let grad = &grad[place.output..place.output + place.len];
                        out[at] += product(row, grad, self.stride);
                    });
                }
            });
        })
    }
}

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

/// In eight sums side by side, since one alone could not be vectorised.
#[inline(always)]
fn product(row: &[f32], grad: &[f32], stride: usize) -> f32 {
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
