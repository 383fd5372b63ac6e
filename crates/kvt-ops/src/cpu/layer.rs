//! The backward pass of linear layers, block by block.
//!
//! Three sums read the gradient of a layer's output: the gradients of its input, of its weight and of its bias. One after the other for all
//! rows, each reads it from memory; for some rows at a time, from the cache.

use std::mem::MaybeUninit;
use std::ops::Range;

use pulp::Arch;
use rayon::prelude::*;

use super::bf16::Number;
use super::buffer::{add_in_order, par_write_with, write_in_order};
use super::gemm::{Matrix, Parallelism, add_product_over_rows, threads_of_each};
use super::weight::{Blocks, Weight};
use crate::contiguous::cpu::transposed;

/// How the rows of sums are divided: into parts, each for a thread, and these into blocks. It depends only on the shape, so that the result
/// does not depend on the number of threads.
#[derive(Clone, Copy)]
pub(crate) struct Parts {
    rows: usize,
    /// Rows of a part.
    part: usize,
    /// Rows of a block.
    block: usize,
    count: usize,
}

/// The gradients of a layer's weight and bias: sums over rows that come block by block.
#[derive(Default)]
pub(crate) struct Sums {
    /// `[inputs, outputs]`, or transposed if there are more inputs.
    weight: Vec<f32>,
    bias: Vec<f32>,
}

/// A layer whose outputs have gradients.
pub(crate) struct Backward<'a> {
    /// The transpose of the weight.
    weight: Weight<'a>,
    /// In place of a bias.
    zeros: Vec<f32>,
    outputs: usize,
}

impl Parts {
    /// For some rows, and sums of so many values.
    pub(crate) fn new(rows: usize, summed: usize) -> Self {
        /// Maximum number of parts, and of the values that all sum, and minimum number of rows in each.
        const PARTS: usize = 16;
        const SUMMED: usize = 8 << 20;
        const PART: usize = 768;
        /// Maximum number of rows in a block. `gemm` adds products of as many rows at a time: smaller blocks would read and write the sums
        /// more often, and larger ones leave the cache.
        const BLOCK: usize = 512;
        // A power of two, which a few threads can share equally.
        let most = PARTS.min(SUMMED / summed.max(1));
        let count = 1 << (rows / PART).min(most).max(1).ilog2();
        let part = rows.div_ceil(count).max(1);
        Self {
            rows,
            part,
            block: part.div_ceil(part.div_ceil(BLOCK)),
            count,
        }
    }

    /// The threads for the products of a block.
    pub(crate) fn threads(self) -> Parallelism {
        threads_of_each(self.count)
    }

    /// Calls `backward` for each block of rows, with the sums of its part and with a place for rows of `width` values, which it returns with
    /// every value written. Returns all rows, and the sums over them.
    pub(crate) fn each_block<const N: usize>(
        self,
        width: usize,
        backward: impl for<'a> Fn(
            &mut [Sums; N],
            &'a mut [MaybeUninit<f32>],
            Range<usize>,
        ) -> &'a mut [f32]
        + Sync
        + Send,
    ) -> (Vec<f32>, [Sums; N]) {
        let none = |_| std::array::from_fn(|_| Sums::default());
        let mut sums: Vec<[Sums; N]> = (0..self.count).map(none).collect();
        let numbered = sums.par_iter_mut().enumerate();
        let (len, part) = (self.rows * width, self.part * width);
        let rows = par_write_with(
            len,
            part,
            numbered,
            || (),
            |(), out, (number, sums)| {
                let Range { start, end } = self.rows_of(number);
                write_in_order(out, self.block * width, |out, number| {
                    let start = start + number * self.block;
                    backward(sums, out, start..end.min(start + self.block))
                })
            },
        );
        let mut columns: [Vec<Sums>; N] = std::array::from_fn(|_| Vec::new());
        for sums in sums {
            for (column, sums) in columns.iter_mut().zip(sums) {
                column.push(sums);
            }
        }
        (rows, columns.map(Sums::total))
    }

    /// The rows of a part.
    fn rows_of(self, part: usize) -> Range<usize> {
        part * self.part..self.rows.min((part + 1) * self.part)
    }
}

/// `a^T b` in a new vector, row by row, on all threads, for matrices with many more rows than columns.
///
/// # Panics
/// If the shapes do not match.
pub(crate) fn product_over_rows(a: Matrix<'_>, b: Matrix<'_>) -> Vec<f32> {
    let shape = [a.shape()[1], b.shape()[1]];
    let parts = Parts::new(a.shape()[0], shape[0] * shape[1]);
    let sums = (0..parts.count).into_par_iter().map(|number| {
        let (rows, mut sums) = (parts.rows_of(number), Sums::default());
        sums.add_weight(parts.threads(), a.rows(rows.clone()), b.rows(rows));
        sums
    });
    let [product, _] = Sums::total(sums.collect()).into_values(shape, false);
    product
}

impl Sums {
    /// The sums of all parts, in order.
    fn total(parts: Vec<Self>) -> Self {
        let mut parts = parts.into_iter();
        let mut total = parts.next().unwrap_or_default();
        let others: Vec<_> = parts.collect();
        let weights: Vec<_> = others.iter().map(|sums| &sums.weight[..]).collect();
        add_in_order(&mut total.weight, &weights);
        let biases: Vec<_> = others.iter().map(|sums| &sums.bias[..]).collect();
        add_in_order(&mut total.bias, &biases);
        total
    }

    /// Adds those of the inputs and gradients of some rows.
    pub(crate) fn add(&mut self, threads: Parallelism, x: Matrix<'_>, grads: Matrix<'_>) {
        self.add_weight(threads, x, grads);
        self.add_bias(grads);
    }

    /// Adds the products of inputs and gradients of some rows.
    pub(crate) fn add_weight(&mut self, threads: Parallelism, x: Matrix<'_>, grads: Matrix<'_>) {
        let is_turned = x.shape()[1] > grads.shape()[1];
        let (a, b) = if is_turned { (grads, x) } else { (x, grads) };
        add_product_over_rows(threads, &mut self.weight, a, b);
    }

    /// Adds the gradients of some rows, which are side by side.
    pub(crate) fn add_bias(&mut self, grads: Matrix<'_>) {
        let [rows, width] = grads.shape();
        assert_eq!(grads.strides(), [width, 1], "rows with gaps");
        self.bias.resize(width, 0.0);
        add_rows(&mut self.bias, &grads.values()[..rows * width]);
    }

    /// The gradients of the weight, `[inputs, outputs]` or transposed, and of the bias; nothing of what was not added.
    pub(crate) fn into_values(
        self,
        [inputs, outputs]: [usize; 2],
        transpose: bool,
    ) -> [Vec<f32>; 2] {
        let is_turned = inputs > outputs;
        let weight = if is_turned == transpose || self.weight.is_empty() {
            self.weight
        } else if is_turned {
            transposed(&self.weight, [outputs, inputs], inputs)
        } else {
            transposed(&self.weight, [inputs, outputs], outputs)
        };
        [weight, self.bias]
    }
}

/// Adds rows to a sum.
pub(crate) fn add_rows<T: Number>(sum: &mut [f32], rows: &[T]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for row in rows.chunks_exact(sum.len()) {
                for (sum, x) in sum.iter_mut().zip(row) {
                    *sum += x.widened();
                }
            }
        },
    );
}

/// The sum over rows of `width`, on all threads.
pub(crate) fn sum_of_rows<T: Number>(values: &[T], width: usize) -> Vec<f32> {
    /// A constant, so that the result does not depend on the number of threads.
    const PARTS: usize = 16;
    let rows = values.len() / width;
    let part = rows.div_ceil(PARTS).max(1) * width;
    let sums: Vec<Vec<f32>> = values
        .par_chunks(part)
        .map(|rows| {
            let mut sum = vec![0.0; width];
            add_rows(&mut sum, rows);
            sum
        })
        .collect();
    let mut total = vec![0.0; width];
    sums.iter().for_each(|sum| add_rows(&mut total, sum));
    total
}

impl<'a> Backward<'a> {
    /// Of a weight `[inputs, outputs]`, for the gradients of some rows.
    pub(crate) fn new(rows: usize, weight: Matrix<'a>) -> Self {
        let [inputs, outputs] = weight.shape();
        Self {
            weight: Weight::for_rows(rows, weight.t()),
            zeros: vec![0.0; inputs],
            outputs,
        }
    }

    /// The gradients of the inputs of some rows, on all threads.
    pub(crate) fn inputs<'o>(
        &self,
        out: &'o mut [MaybeUninit<f32>],
        grads: Matrix<'_>,
    ) -> &'o mut [f32] {
        let blocks = self.blocks(grads.shape()[0]);
        self.weight.all(blocks, out, grads, (&self.zeros, None))
    }

    /// How some rows are divided among threads.
    pub(crate) fn blocks(&self, rows: usize) -> Blocks {
        let width = self.zeros.len().max(self.outputs);
        self.weight.blocks(rows, width)
    }

    /// As [`Self::inputs`], of the rows of one of the blocks, on this thread.
    pub(crate) fn inputs_of<'o>(
        &self,
        blocks: Blocks,
        number: usize,
        out: &'o mut [MaybeUninit<f32>],
        grads: Matrix<'_>,
    ) -> &'o mut [f32] {
        let grads = grads.rows(blocks.rows(number, grads.shape()[0]));
        self.weight.affine(blocks, out, grads, &self.zeros, None)
    }
}

#[cfg(test)]
mod tests;
