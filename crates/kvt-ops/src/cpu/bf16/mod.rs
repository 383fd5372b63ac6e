//! Matrix products of bf16 numbers, summed in f32.
//!
//! On CPUs with AVX512-BF16, they use its instructions in three steps: both matrices are packed in panels and rounded to
//! bf16 if needed; a kernel computes tiles of 12 x 32 sums, with AMX of 32 x 32; and each tile is finished (bias, residual, output
//! type) while it is in the cache. Other CPUs widen the numbers to f32 and use the f32 product.
//!
//! Terms are added in a fixed order, which is another one for each kernel, and in parts whose number depends only on the number of rows, so that the result does not
//! depend on the number of threads.

use std::mem::MaybeUninit;

use burn::tensor::bf16;
use rayon::prelude::*;

use super::buffer::{add_in_order, par_write_with};
use super::gemm::{self, Matrix, Write};
use super::layer;
use super::matrix::assert_fits;
use pack::{Buffers, WIDTH};
use tiles::{Left, Panels, tiles};

#[cfg_attr(not(target_arch = "x86_64"), path = "no_amx.rs")]
mod amx;
#[cfg_attr(not(target_arch = "x86_64"), path = "no_kernel.rs")]
mod kernel;
mod number;
mod output;
mod pack;
mod tiles;

pub(crate) use kernel::Kernel;
pub(crate) use number::Number;
pub(crate) use output::Added;
use output::{Strided, finish, finished_tiles};

/// Maximum number of output rows that a thread computes at a time: their panels stay in the cache. A multiple of the height of every
/// kernel's tiles.
const ROWS: usize = 96;

/// Minimum number of output rows for which both matrices of a sum over the rows are packed. A multiple, too.
const BAND: usize = ROWS;

/// Minimum number of rows per part of a sum over the rows, and maximum number of parts.
const PART: usize = 512;
const PARTS: usize = 16;

/// Whether this CPU has instructions that multiply bf16 numbers. Products of bf16 are then faster than those of f32 on AMD, and on Intel with AMX.
pub fn cpu_multiplies_bf16() -> bool {
    Kernel::detect().is_some()
}

/// The right matrix of products, packed.
#[derive(Default)]
pub(crate) struct Right(Panels<WIDTH>);

impl Right {
    /// Packed on all threads.
    pub(crate) fn new<T: Number>(kernel: Kernel, matrix: Matrix<'_, T>) -> Self {
        Self(Panels::new(kernel, matrix.t()))
    }

    /// Packs another matrix on this thread, in the same memory.
    pub(crate) fn fill(&mut self, kernel: Kernel, matrix: Matrix<'_, bf16>) {
        // Rows of bf16 need no buffers.
        self.0.fill(kernel, matrix.t(), &mut Buffers::default());
    }
}

/// Buffers for [`rows_of_product`], which a thread reuses.
#[derive(Default)]
pub(crate) struct Scratch(Left);

/// Rows that a thread computes at a time: whole tiles, so many that the thread with the most blocks is done first. It does not change any
/// sum.
pub(crate) fn block_height(kernel: Option<Kernel>, rows: usize) -> usize {
    /// What a block costs beside its rows, which read the right matrix anew, in rows.
    const EACH: usize = 2;
    let (threads, height) = (
        rayon::current_num_threads(),
        kernel.map_or(1, Kernel::height),
    );
    let cost = |block: &usize| rows.div_ceil(*block).div_ceil(threads) * (block + EACH);
    let heights = (1..=ROWS / height).map(|tiles| tiles * height);
    // Of equals, the last one.
    heights.rev().min_by_key(cost).unwrap_or(height)
}

/// Writes some rows of a product plus the added terms, on this thread.
pub(crate) fn rows_of_product<'a, A: Number, T: Number>(
    kernel: Kernel,
    a: Matrix<'_, A>,
    right: &Right,
    added: Added<'_, T>,
    out: &'a mut [MaybeUninit<T>],
    Scratch(left): &mut Scratch,
) -> &'a mut [T] {
    finished_tiles(kernel, a, left, &right.0, added, out)
}

/// `out = factor * a b` or `out += factor * a b` on this thread; the rows of `out` start `stride` apart.
///
/// The rows of `a` may have one number more than `b` has rows, if `b` has an odd number of them: it is multiplied by zero, so it must be finite.
///
/// # Panics
/// If the shapes do not match, or the product does not fit in `out`.
pub(crate) fn multiply(
    kernel: Kernel,
    (out, stride): (&mut [f32], usize),
    write: Write,
    factor: f32,
    a: Matrix<'_, bf16>,
    Right(b): &Right,
    Scratch(left): &mut Scratch,
) {
    let ([rows, numbers], [columns, inner]) = (a.shape(), b.shape());
    let one_more = inner % 2 == 1 && numbers == inner + 1;
    assert!(numbers == inner || one_more, "matrices that do not fit");
    assert_fits(out.len(), [rows, columns], stride);
    let output = Strided {
        out,
        stride,
        write,
        factor,
    };
    tiles(kernel, a, left, b, output);
}

/// `a b` plus the added terms in a new vector, row by row, on all threads. Without a kernel, it computes as on other CPUs.
///
/// # Panics
/// If the shapes do not fit.
pub(crate) fn product<A: Number, B: Number, T: Number>(
    kernel: Option<Kernel>,
    a: Matrix<'_, A>,
    b: Matrix<'_, B>,
    added: Added<'_, T>,
) -> Vec<T> {
    let ([rows, inner], [b_rows, columns]) = (a.shape(), b.shape());
    assert_eq!(inner, b_rows, "matrices that do not fit");
    if let Some(bias) = added.bias {
        assert_eq!(bias.len(), columns, "a bias that does not fit");
    }
    if let Some(residual) = added.residual {
        assert_eq!(
            residual.len(),
            rows * columns,
            "a residual that does not fit"
        );
    }
    let height = block_height(kernel, rows);
    let block = height * columns;
    let numbers = (0..rows.div_ceil(height)).into_par_iter();
    let Some(kernel) = kernel else {
        let sums = gemm::product(a.with(&widened(a)), b.with(&widened(b)));
        let parts = sums.par_chunks(block.max(1)).enumerate();
        return par_write_with(
            rows * columns,
            block,
            parts,
            || (),
            |(), out, (number, sums)| {
                let rows = out.chunks_mut(columns).zip(sums.chunks(columns));
                for (index, (out, sums)) in rows.enumerate() {
                    let start = (number * height + index) * columns;
                    finish(out, sums, added.at(start, 0..columns));
                }
                #[expect(unsafe_code, reason = "a vector that is not filled with zeros first")]
                // SAFETY: there are as many sums as places, and each has been finished.
                unsafe {
                    out.assume_init_mut()
                }
            },
        );
    };
    let right = Right::new(kernel, b);
    par_write_with(
        rows * columns,
        block,
        numbers,
        Scratch::default,
        |scratch, out, number| {
            let start = number * height;
            let range = start..rows.min(start + height);
            let added = added.rows(range.clone(), columns);
            rows_of_product(kernel, a.rows(range), &right, added, out, scratch)
        },
    )
}

/// `a^T b` in a new vector, row by row, for matrices with many more rows than columns. Without a kernel, it computes as on other CPUs.
///
/// # Panics
/// If the shapes do not fit.
pub(crate) fn product_over_rows<A: Number, B: Number>(
    kernel: Option<Kernel>,
    a: Matrix<'_, A>,
    b: Matrix<'_, B>,
) -> Vec<f32> {
    let ([rows, a_columns], [b_rows, columns]) = (a.shape(), b.shape());
    assert_eq!(rows, b_rows, "matrices that do not fit");
    let Some(kernel) = kernel else {
        return layer::product_over_rows(a.with(&widened(a)), b.with(&widened(b)));
    };
    // A power of two, which a few threads can share equally.
    let parts = 1 << (rows / PART).clamp(1, PARTS).ilog2();
    let part = rows.div_ceil(parts).max(1);
    let parts = rows.div_ceil(part);
    // If there are more threads than parts, they share the rows of the output, which does not change any sum.
    let bands = rayon::current_num_threads().div_ceil(parts.max(1));
    let band = a_columns.div_ceil(bands).next_multiple_of(BAND).max(BAND);
    let bands = a_columns.div_ceil(band);
    let scratch = || (Left::default(), Panels::default(), Buffers::default());
    let sums = (0..bands * parts).into_par_iter();
    let sums = sums.map_init(scratch, |(left, right, buffers), number| {
        let (start, range) = (number / parts * band, number % parts * part);
        let range = range..rows.min(range + part);
        let a = a
            .rows(range.clone())
            .t()
            .rows(start..a_columns.min(start + band));
        right.fill(kernel, b.rows(range).t(), buffers);
        let height = a.shape()[0];
        let mut out = Box::new_uninit_slice(height * columns);
        // Few rows at a time: packed, they stay in the cache until all columns have read them.
        for (number, out) in out.chunks_mut((ROWS * columns).max(1)).enumerate() {
            let start = number * ROWS;
            let a = a.rows(start..height.min(start + ROWS));
            finished_tiles(kernel, a, left, right, Added::nothing(), out);
        }
        #[expect(unsafe_code, reason = "a slice that is not filled with zeros first")]
        // SAFETY: the tiles of all rows have been written.
        unsafe {
            out.assume_init()
        }
    });
    let sums: Vec<Box<[f32]>> = sums.collect();
    let mut total = vec![0.0; a_columns * columns];
    let of_bands = sums.chunks(parts.max(1));
    for (total, sums) in total.chunks_mut((band * columns).max(1)).zip(of_bands) {
        let sums: Vec<_> = sums.iter().map(|sum| &**sum).collect();
        add_in_order(total, &sums);
    }
    total
}

/// The numbers of a matrix, rounded to bf16, in f32.
fn widened<T: Number>(matrix: Matrix<'_, T>) -> Vec<f32> {
    let values = matrix.values().par_iter();
    values
        .map(|x| bf16::from_bits(x.bits()).widened())
        .collect()
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
