//! RoIAlign on the CPU: a map of a region at a time, on all threads, and backward a map of the batch at a time, which adds its
//! regions in their order. No result depends on the number of threads.

use std::ops::Range;
use std::sync::Arc;

use burn::backend::{Flex, TensorMetadata, tensor::FloatTensor};
use burn::tensor::Shape;
use rayon::prelude::*;

use super::{Bins, Plan, RoiAlignOps};
use crate::cpu::buffer::{par_build_with, tensor, values_of};
use crate::cpu::wide::wide;

impl RoiAlignOps for Flex {
    fn roi_aligned(maps: FloatTensor<Self>, plan: Arc<Plan>) -> FloatTensor<Self> {
        let maps = maps.to_contiguous();
        let [_, channels, height, width] = maps.shape().dims();
        let (values, pixels, area) = (values_of(&maps), height * width, plan.area());
        let parts = plan.regions.len() * channels;
        let scratch = || vec![0.0; width];
        let numbers = (0..parts).into_par_iter();
        let out = par_build_with(parts * area, area, numbers, scratch, |row, out, part| {
            let region = &plan.regions[part / channels];
            let map = region.image * channels + part % channels;
            let map = &values[map * pixels..][..pixels];
            pool(region, map, row, out);
        });
        let shape = [plan.regions.len(), channels, plan.bins, plan.bins];
        tensor(out, Shape::new(shape))
    }

    fn roi_aligned_backward(grad: FloatTensor<Self>, plan: Arc<Plan>) -> FloatTensor<Self> {
        let grad = grad.to_contiguous();
        let [_, channels, _, _] = grad.shape().dims();
        let (values, area) = (values_of(&grad), plan.area());
        let [height, width] = plan.size;
        let (pixels, maps) = (height * width, plan.batch * channels);
        let scratch = || vec![0.0; width];
        let numbers = (0..maps).into_par_iter();
        let out = par_build_with(maps * pixels, pixels, numbers, scratch, |row, out, map| {
            let (image, channel) = (map / channels, map % channels);
            for (number, region) in plan.regions.iter().enumerate() {
                if region.image == image {
                    let at = (number * channels + channel) * area;
                    spread(region, &values[at..][..area], row, out);
                }
            }
        });
        tensor(out, Shape::new([plan.batch, channels, height, width]))
    }
}

impl Plan {
    /// The bins of a region.
    fn area(&self) -> usize {
        self.bins * self.bins
    }
}

impl Bins {
    /// The columns of the map between the first and the last that a bin has for an input.
    #[inline(always)]
    fn columns(&self) -> Range<usize> {
        let [_, columns] = &self.axes;
        let inputs = columns.iter().map(|bin| bin.inputs());
        let mut inputs = inputs.filter(|inputs| !inputs.is_empty());
        let first = inputs.next().unwrap_or_default();
        inputs.fold(first, |all, inputs| {
            all.start.min(inputs.start)..all.end.max(inputs.end)
        })
    }
}

wide! {
    /// The bins of a map in `out`, which has zeros. `row` is as long as a row of the map: first the rows of a bin are blended in
    /// it, then its columns.
    fn pool<'a>(region: &'a Bins, map: &'a [f32], row: &'a mut [f32], out: &'a mut [f32]) {
        let (all, width) = (region.columns(), row.len());
        let [rows, columns] = &region.axes;
        for (out, bin) in out.chunks_exact_mut(columns.len()).zip(rows) {
            row[all.clone()].fill(0.0);
            for (y, weight) in bin.inputs().zip(&bin.weights) {
                let inputs = &map[y * width..][all.clone()];
                for (blended, input) in row[all.clone()].iter_mut().zip(inputs) {
                    *blended += weight * input;
                }
            }
            for (out, bin) in out.iter_mut().zip(columns) {
                for (blended, weight) in row[bin.inputs()].iter().zip(&bin.weights) {
                    *out += weight * blended;
                }
            }
        }
    }

    /// Adds to the gradient of a map that of its bins: the steps of [`pool`], transposed.
    fn spread<'a>(region: &'a Bins, grad: &'a [f32], row: &'a mut [f32], out: &'a mut [f32]) {
        let (all, width) = (region.columns(), row.len());
        let [rows, columns] = &region.axes;
        for (grad, bin) in grad.chunks_exact(columns.len()).zip(rows) {
            row[all.clone()].fill(0.0);
            for (grad, bin) in grad.iter().zip(columns) {
                for (gathered, weight) in row[bin.inputs()].iter_mut().zip(&bin.weights) {
                    *gathered += weight * grad;
                }
            }
            for (y, weight) in bin.inputs().zip(&bin.weights) {
                let out = &mut out[y * width..][all.clone()];
                for (out, gathered) in out.iter_mut().zip(&row[all.clone()]) {
                    *out += weight * gathered;
                }
            }
        }
    }
}
