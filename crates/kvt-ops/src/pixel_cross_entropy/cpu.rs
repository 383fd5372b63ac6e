//! Cross-entropy of pixels on the CPU: SIMD over blocks of pixels, on all threads. No result depends on the number of threads.

use burn::backend::{
    Flex, TensorMetadata,
    tensor::{FloatTensor, IntTensor},
};
use burn::tensor::Shape;
use pulp::Simd;
use rayon::prelude::*;

use super::{PixelCrossEntropyOps, in_i64};
use crate::cpu::buffer::{par_map_copy, tensor, values_in, values_of};
use crate::cpu::simd::{each_with, exp};
use crate::cpu::wide::wide;

/// Pixels per block: two rows of numbers of them stay in the nearest cache.
const BLOCK: usize = 1024;

impl PixelCrossEntropyOps for Flex {
    fn pixel_losses(
        logits: FloatTensor<Self>,
        labels: IntTensor<Self>,
        ignore: i64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let (logits, labels) = (
            logits.to_contiguous(),
            in_i64::<Self>(labels).to_contiguous(),
        );
        let [batch, classes, pixels] = logits.shape().dims();
        let values = values_of(&logits);
        let images = values.par_chunks(classes * pixels);
        let blocks: Vec<(Vec<f32>, f64)> = images
            .zip(values_in::<i64>(&labels).par_chunks(pixels))
            .flat_map(|(image, labels)| {
                let blocks = labels.par_chunks(BLOCK).enumerate();
                blocks.map(move |(block, labels)| {
                    let rows = Rows {
                        image,
                        pixels,
                        start: block * BLOCK,
                        len: labels.len(),
                    };
                    let normaliser = log_sums(rows);
                    let loss = |(at, (label, normaliser)): (usize, (&i64, &f32))| {
                        if *label == ignore {
                            return 0.0;
                        }
                        let class = usize::try_from(*label).ok().filter(|at| *at < classes);
                        class.map_or(f64::NAN, |class| {
                            f64::from(normaliser - rows.of_class(class)[at])
                        })
                    };
                    let sum = labels
                        .iter()
                        .zip(&normaliser)
                        .enumerate()
                        .map(loss)
                        .sum::<f64>();
                    (normaliser, sum)
                })
            })
            .collect();
        let sum: f64 = blocks.iter().map(|(_, sum)| sum).sum();
        let normaliser = blocks.into_iter().flat_map(|(values, _)| values).collect();
        (
            tensor(vec![sum as f32], Shape::new([1])),
            tensor(normaliser, Shape::new([batch, pixels])),
        )
    }

    fn pixel_losses_backward(
        logits: FloatTensor<Self>,
        labels: IntTensor<Self>,
        normaliser: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        ignore: i64,
    ) -> FloatTensor<Self> {
        let [logits, normaliser, grad] = [logits, normaliser, grad].map(|x| x.to_contiguous());
        let labels = in_i64::<Self>(labels).to_contiguous();
        let [_, classes, pixels] = logits.shape().dims();
        let of_loss: f32 = values_of(&grad).iter().sum();
        let labels = values_in::<i64>(&labels);
        let normaliser = values_of(&normaliser);
        let planes = (0..logits.shape().num_elements() / pixels).into_par_iter();
        let out = par_map_copy(values_of(&logits), pixels, planes, |plane, number| {
            let of_image = number / classes * pixels;
            let labels = &labels[of_image..][..pixels];
            let normaliser = &normaliser[of_image..][..pixels];
            into_probabilities(plane, normaliser);
            let class = (number % classes) as i64;
            for (x, label) in plane.iter_mut().zip(labels) {
                let expected = if *label == class { 1.0 } else { 0.0 };
                let grad = if *label == ignore { 0.0 } else { of_loss };
                *x = (*x - expected) * grad;
            }
        });
        tensor(out, logits.shape())
    }
}

/// The logits of an image, `[classes, pixels]`, at `len` pixels from `start` on.
#[derive(Clone, Copy)]
struct Rows<'a> {
    image: &'a [f32],
    pixels: usize,
    start: usize,
    len: usize,
}

impl<'a> Rows<'a> {
    fn of_class(self, class: usize) -> &'a [f32] {
        &self.image[class * self.pixels + self.start..][..self.len]
    }

    fn all(self) -> impl Iterator<Item = &'a [f32]> {
        (0..self.image.len() / self.pixels).map(move |class| self.of_class(class))
    }
}

wide! {
    /// The logarithm of the sum of `exp(logits)` at each pixel.
    fn log_sums<'a, simd: S>(rows: Rows<'a>) -> Vec<f32> {
        let mut largest = vec![f32::NEG_INFINITY; rows.len];
        for row in rows.all() {
            for (largest, x) in largest.iter_mut().zip(row) {
                // A NaN stays: `exp` would not show it.
                *largest = if *x > *largest || x.is_nan() {
                    *x
                } else {
                    *largest
                };
            }
        }
        let mut sums = vec![0.0; rows.len];
        for row in rows.all() {
            add_exp(simd, &mut sums, row, &largest);
        }
        for (sum, largest) in sums.iter_mut().zip(&largest) {
            *sum = sum.ln() + largest;
        }
        sums
    }

    /// Replaces logits of a class by probabilities.
    fn into_probabilities<'a, simd: S>(plane: &'a mut [f32], normaliser: &'a [f32]) {
        each_with(
            simd,
            plane,
            normaliser,
            #[inline(always)]
            |x, normaliser| exp(simd, simd.sub_f32s(x, normaliser)),
        );
    }
}

/// `sums += exp(x - largest)`.
#[inline(always)]
fn add_exp<S: Simd>(simd: S, sums: &mut [f32], x: &[f32], largest: &[f32]) {
    let (sums, sums_rest) = S::as_mut_simd_f32s(sums);
    let (x, x_rest) = S::as_simd_f32s(x);
    let (largest, largest_rest) = S::as_simd_f32s(largest);
    for ((sum, x), largest) in sums.iter_mut().zip(x).zip(largest) {
        *sum = simd.add_f32s(*sum, exp(simd, simd.sub_f32s(*x, *largest)));
    }
    let [sum, x, largest] =
        [&*sums_rest, x_rest, largest_rest].map(|rest| simd.partial_load_f32s(rest));
    let sum = simd.add_f32s(sum, exp(simd, simd.sub_f32s(x, largest)));
    simd.partial_store_f32s(sums_rest, sum);
}
