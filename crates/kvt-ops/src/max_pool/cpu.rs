//! Max pooling on the CPU.

use burn::backend::{Flex, TensorMetadata, tensor::FloatTensor};
use burn::tensor::{DType, Shape};
use pulp::Simd;
use rayon::prelude::*;

use super::MaxPoolOps;
use super::phases::{Phases, divide};
use crate::contiguous::cpu::contiguous;
use crate::cpu::buffer::{par_build_with, tensor, values_of};
use crate::cpu::simd::each_with;
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
        let scratch = || (vec![0.0; phases.len()], vec![NOWHERE; positions]);
        let build = |(parts, found): &mut (Vec<f32>, Vec<u32>), x_grad: &mut [f32], others| {
            let ((plane, out), grad): ((&[f32], &[f32]), &[f32]) = others;
            divide(phases, plane, parts);
            first_largest(windows, phases, [parts, out], found);
            to_pixels(windows, found, grad, x_grad);
        };
        let x_grad = par_build_with(len, pixels, planes, scratch, build);
        tensor(x_grad, x.shape())
    }
}

/// The place of a pixel that was not found.
const NOWHERE: u32 = u32::MAX;

wide! {
    /// The largest value of each window on a map in parts; NaN is larger than any number.
    fn largest<'a, simd: S>(windows: Windows, phases: Phases, parts: &'a [f32], out: &'a mut [f32]) {
        out.fill(f32::NEG_INFINITY);
        windows.for_each(|_, span| {
            let row = &parts[phases.place(span)..][..span.len];
            let out = &mut out[span.output..][..span.len];
            each_with(simd, out, row, |out, x| {
                let larger = simd.select_f32s(simd.less_than_f32s(out, x), x, out);
                simd.select_f32s(simd.equal_f32s(x, x), larger, x)
            });
        });
    }

    /// The first largest pixel of each window, counted from the window's corner: `maps` are the map in parts and the largest values.
    fn first_largest<'a, simd: S>(
        windows: Windows,
        phases: Phases,
        maps: [&'a [f32]; 2],
        found: &'a mut [u32],
    ) {
        let [parts, largest] = maps;
        found.fill(NOWHERE);
        windows.for_each(|at, span| {
            let place = at / windows.size * windows.width + at % windows.size;
            let place = simd.splat_u32s(place as u32);
            let (row, row_rest) = S::as_simd_f32s(&parts[phases.place(span)..][..span.len]);
            let (largest, largest_rest) = S::as_simd_f32s(&largest[span.output..][..span.len]);
            let (found, found_rest) = S::as_mut_simd_u32s(&mut found[span.output..][..span.len]);
            for ((found, x), largest) in found.iter_mut().zip(row).zip(largest) {
                *found = find(simd, place, *found, *x, *largest);
            }
            let [x, largest] = [row_rest, largest_rest].map(|rest| simd.partial_load_f32s(rest));
            let rest = find(simd, place, simd.partial_load_u32s(found_rest), x, largest);
            simd.partial_store_u32s(found_rest, rest);
        });
    }
}

/// What was found of some windows, or the place of their pixels `x` where nothing was and they are the largest.
#[inline(always)]
fn find<S: Simd>(simd: S, place: S::u32s, found: S::u32s, x: S::f32s, largest: S::f32s) -> S::u32s {
    let here = simd.select_u32s(simd.equal_f32s(x, largest), place, found);
    // A NaN is the largest wherever there is one.
    let here = simd.select_u32s(simd.equal_f32s(x, x), here, place);
    let is_none = simd.equal_u32s(found, simd.splat_u32s(NOWHERE));
    simd.select_u32s(is_none, here, found)
}

/// Adds the gradient of each window to its pixel that was found.
fn to_pixels(windows: Windows, found: &[u32], grad: &[f32], x_grad: &mut [f32]) {
    let Windows {
        width,
        stride,
        padding,
        columns,
        ..
    } = windows;
    let rows = found.chunks_exact(columns).zip(grad.chunks_exact(columns));
    for (row, (found, grad)) in rows.enumerate() {
        for (column, (place, grad)) in found.iter().zip(grad).enumerate() {
            // Every window covers a pixel, since padding is at most half of it.
            let corner = stride * (row * width + column);
            x_grad[corner + *place as usize - padding * (width + 1)] += grad;
        }
    }
}
