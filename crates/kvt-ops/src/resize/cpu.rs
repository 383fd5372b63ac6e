//! Bilinear resizing on the CPU: a map at a time, on all threads. A row of an output is two rows of the map, blended, and then
//! its columns.

use burn::backend::{Flex, TensorMetadata, tensor::FloatTensor};
use burn::tensor::Shape;
use rayon::prelude::*;

use super::{ResizeOps, Tap, taps};
use crate::cpu::buffer::{par_build_with, tensor, values_of};
use crate::cpu::wide::wide;

impl ResizeOps for Flex {
    fn resized(x: FloatTensor<Self>, [rows, columns]: [usize; 2]) -> FloatTensor<Self> {
        let x = x.to_contiguous();
        let [batch, channels, height, width] = x.shape().dims();
        let (of_rows, of_columns) = all_taps([height, width], [rows, columns]);
        let maps = values_of(&x).par_chunks(height * width);
        let len = maps.len() * rows * columns;
        let scratch = || vec![0.0; width];
        let out = par_build_with(len, rows * columns, maps, scratch, |blended, out, map| {
            resize([&of_rows, &of_columns], map, blended, out);
        });
        tensor(out, Shape::new([batch, channels, rows, columns]))
    }

    fn resized_backward(grad: FloatTensor<Self>, [height, width]: [usize; 2]) -> FloatTensor<Self> {
        let grad = grad.to_contiguous();
        let [batch, channels, rows, columns] = grad.shape().dims();
        let (of_rows, of_columns) = all_taps([height, width], [rows, columns]);
        let maps = values_of(&grad).par_chunks(rows * columns);
        let len = maps.len() * height * width;
        let scratch = || vec![0.0; width];
        let x_grad = par_build_with(len, height * width, maps, scratch, |gathered, out, map| {
            spread([&of_rows, &of_columns], map, gathered, out);
        });
        tensor(x_grad, Shape::new([batch, channels, height, width]))
    }
}

wide! {
    /// Resizes a map to `out`. `blended` is as long as a row of the map.
    fn resize<'a>(
        taps: [&'a [Tap]; 2],
        map: &'a [f32],
        blended: &'a mut [f32],
        out: &'a mut [f32],
    ) {
        let ([of_rows, of_columns], width) = (taps, blended.len());
        for (out, tap) in out.chunks_exact_mut(of_columns.len()).zip(of_rows) {
            let [first, second] = [tap.first, tap.second].map(|row| &map[row * width..][..width]);
            for ((blended, first), second) in blended.iter_mut().zip(first).zip(second) {
                *blended = tap.blend(*first, *second);
            }
            for (out, tap) in out.iter_mut().zip(of_columns) {
                *out = tap.blend(blended[tap.first], blended[tap.second]);
            }
        }
    }

    /// Adds to the gradient of a map, in `out`, that of its resized map. `gathered` is as long as a row of the map.
    fn spread<'a>(
        taps: [&'a [Tap]; 2],
        grads: &'a [f32],
        gathered: &'a mut [f32],
        out: &'a mut [f32],
    ) {
        let ([of_rows, of_columns], width) = (taps, gathered.len());
        for (grad, tap) in grads.chunks_exact(of_columns.len()).zip(of_rows) {
            gathered.fill(0.0);
            for (grad, tap) in grad.iter().zip(of_columns) {
                for (at, share) in tap.shares() {
                    gathered[at] += grad * share;
                }
            }
            for (row, share) in tap.shares() {
                let out = &mut out[row * width..][..width];
                for (out, grad) in out.iter_mut().zip(gathered.iter()) {
                    *out += grad * share;
                }
            }
        }
    }
}

/// The taps of the rows and of the columns.
fn all_taps([height, width]: [usize; 2], [rows, columns]: [usize; 2]) -> (Vec<Tap>, Vec<Tap>) {
    (taps(height, rows).collect(), taps(width, columns).collect())
}

impl Tap {
    #[inline(always)]
    fn blend(self, first: f32, second: f32) -> f32 {
        first * (1.0 - self.share) + second * self.share
    }

    /// Both inputs with their shares.
    #[inline(always)]
    fn shares(self) -> [(usize, f32); 2] {
        [(self.first, 1.0 - self.share), (self.second, self.share)]
    }
}
