//! Convolution on the CPU: per group, a product of the weight and the windows of some images as columns, or, for groups of one
//! channel, sums of shifted images. Other types are computed in f32, and the output is rounded once.

use std::mem::MaybeUninit;

use burn::backend::{Flex, TensorMetadata, tensor::FloatTensor};
use burn::tensor::Shape;
use rayon::prelude::*;

use super::{ConvOps, Settings};
use crate::batch_norm::cpu::sums::{Layout, channel_sums};
use crate::cast::{cast, to_f32};
use crate::contiguous::cpu::{contiguous, transpose};
use crate::cpu::buffer::{
    filled, grown, par_build, par_build_with, par_write_with, sum_of_parts, tensor, values_of,
};
use crate::cpu::gemm::{Matrix, Parallelism, Write, multiply_on, threads_of_each, write_rows};
use crate::optional::Optional;

mod backwards;
mod depthwise;
mod geometry;

use geometry::{Geometry, Scratch, Strip};

/// Maximum number of parts in which the gradient of the weight is summed, and of their values in total.
const PARTS: usize = 16;
const PART_VALUES: usize = 1 << 22;

impl ConvOps for Flex {
    fn convolve(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: Optional<Self>,
        settings: Settings,
    ) -> FloatTensor<Self> {
        let dtype = x.dtype();
        let [x, weight] = [x, weight].map(|x| contiguous(to_f32::<Self>(x)));
        let bias = bias.get().map(|bias| contiguous(to_f32::<Self>(bias)));
        let geometry = Geometry::new(&x.shape(), &weight.shape(), settings);
        let bias = bias.as_ref().map(values_of);
        let out = geometry.forward(values_of(&x), values_of(&weight), bias);
        cast::<Self>(tensor(out, geometry.output_shape()), dtype)
    }

    fn convolve_bias_gradient(grad: FloatTensor<Self>) -> FloatTensor<Self> {
        let dtype = grad.dtype();
        let grad = contiguous(to_f32::<Self>(grad));
        let [batch, outputs, rows, columns] = grad.shape().dims();
        let layout = Layout {
            outer: batch,
            channels: outputs,
            inner: rows * columns,
        };
        let sums = tensor(
            channel_sums(values_of(&grad), layout),
            Shape::new([outputs]),
        );
        cast::<Self>(sums, dtype)
    }

    fn convolve_image_gradient(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        settings: Settings,
    ) -> FloatTensor<Self> {
        let dtype = x.dtype();
        let [weight, grad] = [weight, grad].map(|x| contiguous(to_f32::<Self>(x)));
        let geometry = Geometry::new(&x.shape(), &weight.shape(), settings);
        let (w, grads) = (values_of(&weight), values_of(&grad));
        let out = match settings.backwards() {
            Some(backwards) if geometry.is_reversible() => {
                let (flipped, shape) = geometry.flipped(w);
                let geometry = Geometry::new(&grad.shape(), &shape, backwards);
                geometry.forward(grads, &flipped, None)
            }
            _ => geometry.image_gradient(w, grads),
        };
        cast::<Self>(tensor(out, x.shape()), dtype)
    }

    fn convolve_weight_gradient(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        settings: Settings,
    ) -> FloatTensor<Self> {
        let dtype = x.dtype();
        let [x, grad] = [x, grad].map(|x| contiguous(to_f32::<Self>(x)));
        let geometry = Geometry::new(&x.shape(), &weight.shape(), settings);
        let out = geometry.weight_gradient(values_of(&x), values_of(&grad));
        cast::<Self>(tensor(out, weight.shape()), dtype)
    }
}

impl Geometry {
    /// The values of all images, `values` each. `write` writes those of a block.
    fn by_blocks(
        &self,
        values: usize,
        write: impl for<'o> Fn(
            &mut Scratch,
            &'o mut [MaybeUninit<f32>],
            usize,
            Parallelism,
        ) -> &'o mut [f32]
        + Sync
        + Send,
    ) -> Vec<f32> {
        let blocks = self.blocks();
        let threads = threads_of_each(blocks);
        let numbers = (0..blocks).into_par_iter();
        let (len, part) = (self.batch * values, self.images * values);
        par_write_with(
            len,
            part,
            numbers,
            Scratch::default,
            |scratch, out, block| write(scratch, out, block, threads),
        )
    }

    fn forward(&self, images: &[f32], weight: &[f32], bias: Option<&[f32]>) -> Vec<f32> {
        if self.is_depthwise() {
            return self.depthwise(images, weight, bias);
        }
        self.by_blocks(self.output(), |scratch, out, block, threads| {
            for strip in self.strips(block) {
                let columns = self.columns(&mut scratch.columns, images, &strip);
                let factors = (self.weight(weight, strip.group), columns);
                self.write_strip(&mut scratch.outputs, out, &strip, factors, bias, threads);
            }
            #[expect(unsafe_code, reason = "a slice that is not filled with zeros first")]
            // SAFETY: the strips of a block have all positions of all its outputs, and each was written.
            unsafe {
                out.assume_init_mut()
            }
        })
    }

    /// Writes the outputs of a strip, which are products of weight and columns with a bias, to those of its block.
    fn write_strip(
        &self,
        buffer: &mut Vec<f32>,
        out: &mut [MaybeUninit<f32>],
        strip: &Strip,
        (weight, columns): (Matrix<'_>, Matrix<'_>),
        bias: Option<&[f32]>,
        threads: Parallelism,
    ) {
        let positions = self.windows.positions();
        let of_group = bias.map(|bias| &bias[strip.group * self.outputs..]);
        let start = |image| self.group_start(image, strip.group, self.outputs, positions);
        if strip.images.len() == 1 {
            let out = &mut out[start(0) + strip.rows.start * self.windows.columns..];
            write_rows(threads, (&mut *out, positions), weight, columns);
            let Some(bias) = of_group else {
                return;
            };
            // The product is still in the cache.
            let len = strip.rows.len() * self.windows.columns;
            for (plane, bias) in out.chunks_mut(positions).zip(&bias[..self.outputs]) {
                #[expect(unsafe_code, reason = "values that were not there before")]
                // SAFETY: the product has just written them.
                let plane = unsafe { plane[..len].assume_init_mut() };
                add_bias(plane, Some(*bias));
            }
            return;
        }
        let product = product_in(buffer, weight, columns, threads);
        let count = strip.images.len() * positions;
        for (channel, row) in product.chunks_exact(count).enumerate() {
            let bias = of_group.map(|bias| bias[channel]);
            for (image, values) in row.chunks_exact(positions).enumerate() {
                let start = start(image) + channel * positions;
                let out = out[start..start + positions].write_copy_of_slice(values);
                add_bias(out, bias);
            }
        }
    }

    fn image_gradient(&self, weight: &[f32], grads: &[f32]) -> Vec<f32> {
        if self.is_depthwise() {
            return self.depthwise_image_gradient(weight, grads);
        }
        let (pixels, area) = (self.windows.pixels(), self.windows.area());
        self.by_blocks(self.input(), |scratch, out, block, threads| {
            let start = |image, group| self.group_start(image, group, self.inputs, pixels);
            let are_products = self.single_pixels() && self.block(block).len() == 1;
            if are_products {
                for strip in self.strips(block) {
                    let weight = self.weight(weight, strip.group).t();
                    let grad = self.gradient(&mut scratch.outputs, grads, &strip);
                    let out = &mut out[start(0, strip.group)..];
                    write_rows(threads, (out, pixels), weight, grad);
                }
                #[expect(unsafe_code, reason = "a slice that is not filled with zeros first")]
                // SAFETY: each group has one strip, of all pixels of its inputs.
                return unsafe { out.assume_init_mut() };
            }
            let out = filled(out, std::iter::repeat(0.0));
            for strip in self.strips(block) {
                let weight = self.weight(weight, strip.group).t();
                let grad = self.gradient(&mut scratch.outputs, grads, &strip);
                let columns = product_in(&mut scratch.columns, weight, grad, threads);
                let each = strip.rows.len() * self.windows.columns;
                let count = strip.images.len() * each;
                for number in 0..strip.images.len() {
                    let start = start(number, strip.group);
                    let channels = &mut out[start..][..self.inputs * pixels];
                    for (channel, image) in channels.chunks_exact_mut(pixels).enumerate() {
                        let columns = &columns[channel * area * count + number * each..];
                        self.windows.fold(&strip.rows, columns, count, image);
                    }
                }
            }
            out
        })
    }

    /// The sum over the images is split into parts, whose number depends only on the shapes.
    fn weight_gradient(&self, images: &[f32], grads: &[f32]) -> Vec<f32> {
        if self.is_depthwise() {
            return self.depthwise_weight_gradient(images, grads);
        }
        let (groups, blocks, lines) = (self.groups, self.blocks(), self.lines());
        let of_group = self.outputs * lines;
        let len = groups * of_group;
        let transposed = self.outputs < lines;
        let parts = PARTS
            .div_ceil(groups)
            .min(PART_VALUES / len)
            .min(blocks)
            .max(1);
        let threads = threads_of_each(parts * groups);
        let numbers = (0..parts * groups).into_par_iter();
        let add = |scratch: &mut Scratch, out: &mut [f32], number: usize| {
            let (part, group) = (number / groups, number % groups);
            let blocks = part * blocks / parts..(part + 1) * blocks / parts;
            for strip in blocks.flat_map(|block| self.strips_of(block, group)) {
                let grad = self.gradient(&mut scratch.outputs, grads, &strip);
                let columns = self.columns(&mut scratch.columns, images, &strip);
                // The product makes rows of the columns of its second factor, which takes longer than the product itself
                // where the other one has few rows: so the smaller is second.
                let (a, b) = if transposed {
                    (columns, grad)
                } else {
                    (grad, columns)
                };
                let out = (&mut *out, b.shape()[0]);
                multiply_on(threads, out, Write::Add, 1.0, a, b.t());
            }
        };
        let sums = par_build_with(parts * len, of_group, numbers, Scratch::default, add);
        let sum = sum_of_parts(sums, len);
        if !transposed {
            return sum;
        }
        let shape = [lines, self.outputs];
        par_build(len, of_group, (0..groups).into_par_iter(), |out, group| {
            transpose(out, lines, &sum[group * of_group..], shape, self.outputs);
        })
    }
}

/// Adds the bias of a channel, if there is one, to its values.
fn add_bias(values: &mut [f32], bias: Option<f32>) {
    if let Some(bias) = bias {
        values.iter_mut().for_each(|x| *x += bias);
    }
}

/// `a b`, written to a buffer row by row.
fn product_in<'a>(
    buffer: &'a mut Vec<f32>,
    a: Matrix<'_>,
    b: Matrix<'_>,
    threads: Parallelism,
) -> &'a mut [f32] {
    let [rows, columns] = [a.shape()[0], b.shape()[1]];
    let out = grown(buffer, rows * columns);
    if rows == 1 || columns == 1 {
        // The product with a vector multiplies the values that it replaces by zero, so they must not be NaN or infinite.
        out.fill(0.0);
    }
    multiply_on(threads, (&mut *out, columns), Write::Replace, 1.0, a, b);
    out
}
