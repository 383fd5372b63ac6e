//! Max pooling on the CPU.

use burn::backend::{Flex, TensorMetadata, tensor::FloatTensor};
use burn::tensor::{DType, Shape};
use rayon::prelude::*;

use super::MaxPoolOps;
use super::phases::{Phases, divide, join};
use crate::contiguous::cpu::contiguous;
use crate::cpu::buffer::{par_build_with, tensor, values_of};
use crate::cpu::wide::wide;
use crate::cpu::windows::Windows;
use crate::window::Window;

impl MaxPoolOps for Flex {
    fn max_pool(x: FloatTensor<Self>, settings: Window) -> FloatTensor<Self> {
        if x.dtype() != DType::F32 {
            return super::forward::<Self>(x, settings);
        }
        let x = contiguous(x);
        let [batch, channels, height, width] = x.shape().dims();
        let windows = settings.windows([height, width]);
        let (phases, positions) = (Phases::new(windows), windows.positions());
        let planes = values_of(&x).par_chunks(windows.pixels());
        let len = planes.len() * positions;
        let scratch = || vec![0.0; phases.len()];
        let out = par_build_with(len, positions, planes, scratch, |parts, out, plane| {
            divide(phases, plane, parts);
            largest(windows, phases, parts, out);
        });
        let shape = Shape::new([batch, channels, windows.rows, windows.columns]);
        tensor(out, shape)
    }

    fn max_pool_backward(
        x: FloatTensor<Self>,
        out: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        settings: Window,
    ) -> FloatTensor<Self> {
        if x.dtype() != DType::F32 {
            return super::backward::<Self>(x, grad, settings);
        }
        let [x, out, grad] = [x, out, grad].map(contiguous);
        let [_, _, height, width] = x.shape().dims();
        let windows = settings.windows([height, width]);
        let phases = Phases::new(windows);
        let (pixels, positions) = (windows.pixels(), windows.positions());
        let planes = values_of(&x)
            .par_chunks(pixels)
            .zip(values_of(&out).par_chunks(positions))
            .zip(values_of(&grad).par_chunks(positions));
        let len = x.shape().num_elements();
        let scratch = || {
            let parts = || vec![0.0; phases.len()];
            [parts(), parts(), vec![0.0; positions]]
        };
        let build = |[parts, grads, left]: &mut [Vec<f32>; 3], x_grad: &mut [f32], others| {
            let ((plane, out), grad): ((&[f32], &[f32]), &[f32]) = others;
            divide(phases, plane, parts);
            grads.fill(0.0);
            left.copy_from_slice(grad);
            to_largest(windows, phases, [parts, out], left, grads);
            join(phases, grads, x_grad);
        };
        let x_grad = par_build_with(len, pixels, planes, scratch, build);
        tensor(x_grad, x.shape())
    }
}

wide! {
    /// The largest value of each window on a map in parts; NaN is larger than any number.
    fn largest<'a>(windows: Windows, phases: Phases, parts: &'a [f32], out: &'a mut [f32]) {
        out.fill(f32::NEG_INFINITY);
        windows.for_each(|_, span| {
            let row = &parts[phases.place(span)..][..span.len];
            let out = &mut out[span.output..][..span.len];
            for (out, x) in out.iter_mut().zip(row) {
                *out = if *x > *out || x.is_nan() { *x } else { *out };
            }
        });
    }

    /// Adds the gradient of each window, `left`, to that of its first largest pixel: `maps` are the map in parts and the largest
    /// values.
    fn to_largest<'a>(
        windows: Windows,
        phases: Phases,
        maps: [&'a [f32]; 2],
        left: &'a mut [f32],
        grads: &'a mut [f32],
    ) {
        let [parts, largest] = maps;
        windows.for_each(|_, span| {
            let place = phases.place(span);
            let pixels = grads[place..][..span.len].iter_mut().zip(&parts[place..]);
            let positions = left[span.output..][..span.len].iter_mut();
            let positions = positions.zip(&largest[span.output..]);
            for ((grad, x), (left, largest)) in pixels.zip(positions) {
                let is_largest = x == largest || (x.is_nan() && largest.is_nan());
                *grad += if is_largest { *left } else { 0.0 };
                // A window gives its gradient once.
                *left = if is_largest { 0.0 } else { *left };
            }
        });
    }
}
