//! Products of rows with the weight of a layer, with a bias and a residual, block by block.
//!
//! On CPUs with AVX-512, or with AVX2, the weight is [packed](super::panels) once, for all blocks. Other CPUs use the `gemm` crate, which packs
//! the weight for each block.

use std::mem::MaybeUninit;
use std::ops::Range;

use rayon::prelude::*;

use super::buffer::par_write_to;
use super::gemm::{Matrix, Parallelism, Write, multiply_on, threads_of_each};
use super::panels::{FEW, Kernel, Panels};
use crate::contiguous::cpu::transposed;

/// Maximum number of values in the widest rows of a block: they stay in the cache of a core until the block is done.
const BLOCK: usize = 96 * 1024;

/// The weight of a layer, `[inputs, outputs]`, whose rows or columns follow each other in memory.
pub(crate) enum Weight<'a> {
    Packed(Panels),
    /// As it is.
    View(Matrix<'a>),
    /// The values row by row, and the shape.
    Rows(Vec<f32>, [usize; 2]),
}

/// How rows are divided among threads.
#[derive(Clone, Copy)]
pub(crate) struct Blocks {
    /// Rows of a block.
    pub(crate) height: usize,
    /// Number of blocks.
    pub(crate) count: usize,
    threads: Parallelism,
}

impl Blocks {
    /// The rows of a block.
    pub(crate) fn rows(&self, number: usize, rows: usize) -> Range<usize> {
        number * self.height..rows.min((number + 1) * self.height)
    }
}

impl<'a> Weight<'a> {
    /// For products with some rows. Packs a matrix on all threads if this CPU has the instructions, and the rows are worth it.
    pub(crate) fn for_rows(rows: usize, matrix: Matrix<'a>) -> Self {
        if rows < FEW {
            return Self::View(matrix);
        }
        Self::on(Kernel::detect(), matrix)
    }

    fn on(kernel: Option<Kernel>, matrix: Matrix<'a>) -> Self {
        match kernel {
            Some(kernel) => Self::Packed(Panels::new(kernel, matrix)),
            // Columns become rows once, and not for each block.
            None if matrix.strides()[1] != 1 => {
                let columns = matrix.t();
                let values = transposed(columns.values(), columns.shape(), columns.strides()[0]);
                Self::Rows(values, matrix.shape())
            }
            None => Self::View(matrix),
        }
    }

    /// The blocks of some rows, whose widest have `width` values.
    pub(crate) fn blocks(&self, rows: usize, width: usize) -> Blocks {
        let height = match self {
            Self::Packed(_) => {
                let threads = rayon::current_num_threads();
                let most = rows.div_ceil(threads).min(BLOCK / width).max(1);
                // Equally many for each thread.
                let blocks = rows.div_ceil(most).next_multiple_of(threads);
                rows.div_ceil(blocks.max(1))
            }
            Self::View(_) | Self::Rows(..) => plain_height(rows, width),
        };
        let height = height.max(1);
        let count = rows.div_ceil(height);
        let threads = threads_of_each(count);
        Blocks {
            height,
            count,
            threads,
        }
    }

    /// `x W + bias`, and a residual, for all blocks, on all threads.
    ///
    /// # Panics
    /// If the shapes do not match.
    pub(crate) fn all<'o>(
        &self,
        blocks: Blocks,
        out: &'o mut [MaybeUninit<f32>],
        x: Matrix<'_>,
        (bias, residual): (&[f32], Option<&[f32]>),
    ) -> &'o mut [f32] {
        let (rows, outputs) = (x.shape()[0], bias.len());
        let numbers = (0..blocks.count).into_par_iter();
        let (part, none) = (blocks.height * outputs, || ());
        par_write_to(out, part, numbers, none, |(), out, number| {
            let rows = blocks.rows(number, rows);
            let range = rows.start * outputs..rows.end * outputs;
            let residual = residual.map(|residual| &residual[range]);
            self.affine(blocks, out, x.rows(rows), bias, residual)
        })
    }

    /// `x W + bias`, and a residual, for the rows of a block: every number of `out` is written.
    ///
    /// # Panics
    /// If the shapes do not match.
    pub(crate) fn affine<'o>(
        &self,
        blocks: Blocks,
        out: &'o mut [MaybeUninit<f32>],
        x: Matrix<'_>,
        bias: &[f32],
        residual: Option<&[f32]>,
    ) -> &'o mut [f32] {
        let (weight, [inputs, outputs]) = match self {
            Self::Packed(panels) => (Err(panels), panels.shape()),
            Self::View(matrix) => (Ok(*matrix), matrix.shape()),
            Self::Rows(values, shape) => (Ok(Matrix::new(values, *shape, shape[1])), *shape),
        };
        let [rows, width] = x.shape();
        assert!(
            inputs == width
                && out.len() == rows * outputs
                && bias.len() == outputs
                && residual.is_none_or(|residual| residual.len() == out.len()),
            "matrices that do not fit"
        );
        match weight {
            Err(panels) => panels.affine(out, x, bias, residual),
            Ok(weight) => {
                let out = with_bias(out, bias, residual);
                let place = (&mut *out, outputs);
                multiply_on(blocks.threads, place, Write::Add, 1.0, x, weight);
                out
            }
        }
    }
}

/// Rows of a bias, which is not empty, and a residual: `out` has whole rows.
fn with_bias<'o>(
    out: &'o mut [MaybeUninit<f32>],
    bias: &[f32],
    residual: Option<&[f32]>,
) -> &'o mut [f32] {
    let Some(residual) = residual else {
        for row in out.chunks_exact_mut(bias.len()) {
            row.write_copy_of_slice(bias);
        }
        #[expect(unsafe_code, reason = "a slice that is not filled with zeros first")]
        // SAFETY: a block has whole rows, and every one has just been written.
        return unsafe { out.assume_init_mut() };
    };
    let out = out.write_copy_of_slice(residual);
    for row in out.chunks_exact_mut(bias.len()) {
        for (x, bias) in row.iter_mut().zip(bias) {
            *x += bias;
        }
    }
    out
}

/// Rows per block of a product by the `gemm` crate. It depends only on the shape, as the order of its sums may depend on it.
fn plain_height(rows: usize, width: usize) -> usize {
    /// Minimum number of rows: for each block, the weight is packed.
    const LEAST: usize = 96;
    /// Any usual number of threads can share this number of blocks equally.
    const SHARED: usize = 8;
    let fewest = rows.div_ceil((BLOCK / width).max(LEAST));
    let blocks = fewest.next_multiple_of(SHARED).min(rows / LEAST);
    rows.div_ceil(blocks.max(fewest).max(1))
}

#[cfg(test)]
mod tests;
