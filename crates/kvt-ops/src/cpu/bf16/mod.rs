//! Matrix products of bf16 numbers, summed in f32.
//!
//! Where the CPU has AVX512-BF16 they take its instructions, in three steps: both matrices are packed in panels, rounded to
//! bf16 where they are not; a kernel computes tiles of 12 x 32 sums; and each tile is finished (a bias, a residual, the type
//! of the output) while it is in the cache. Other CPUs widen the numbers to f32 and take the product of f32.
//!
//! A sum runs in the order of its numbers, split in parts only by the number of rows: the result does not depend on the
//! number of threads.

use std::ops::Range;

use burn::tensor::bf16;
use rayon::prelude::*;

use super::buffer::par_build_of;
use super::gemm::{self, Matrix};
use pack::{Buffers, HEIGHT, LANES};
use tiles::{Panels, in_place, tiles};

#[cfg_attr(not(target_arch = "x86_64"), path = "no_kernel.rs")]
mod kernel;
mod number;
mod pack;
#[cfg(test)]
mod tests;
mod tiles;

pub(crate) use kernel::Kernel;
pub(crate) use number::Number;

/// Rows of the output that a thread computes at a time: their panels stay in the cache. A multiple of [`HEIGHT`].
const ROWS: usize = 8 * HEIGHT;

/// Rows of a part of a sum over the rows, at least, and parts, at most.
const PART: usize = 512;
const PARTS: usize = 16;

/// Whether this CPU multiplies bf16 numbers in instructions for them, which makes products of bf16 faster than those of f32.
pub fn cpu_multiplies_bf16() -> bool {
    Kernel::detect().is_some()
}

/// What is added to a product `[rows, columns]`.
#[derive(Clone, Copy)]
pub(crate) struct Added<'a, T> {
    /// To every row, `[columns]`.
    pub(crate) bias: Option<&'a [f32]>,
    /// `[rows, columns]`.
    pub(crate) residual: Option<&'a [T]>,
}

impl<T> Added<'_, T> {
    pub(crate) fn nothing() -> Self {
        Self {
            bias: None,
            residual: None,
        }
    }

    /// What is added in some columns of the row that begins at `start`.
    #[inline(always)]
    fn at(&self, start: usize, columns: Range<usize>) -> Self {
        let place = start + columns.start..start + columns.end;
        Self {
            bias: self.bias.map(|bias| &bias[columns]),
            residual: self.residual.map(|residual| &residual[place]),
        }
    }
}

/// `a b`, and what is added to it, in a new vector, row by row, on all threads. Without a kernel as on other CPUs.
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
    let block = ROWS * columns;
    let numbers = (0..rows.div_ceil(ROWS)).into_par_iter();
    let Some(kernel) = kernel else {
        let sums = gemm::product(a.with(&widened(a)), b.with(&widened(b)));
        let parts = sums.par_chunks(block.max(1)).enumerate();
        return par_build_of(
            rows * columns,
            block,
            parts,
            || (),
            |(), out, (number, sums)| {
                let rows = out.chunks_mut(columns).zip(sums.chunks(columns));
                for (index, (out, sums)) in rows.enumerate() {
                    let start = (number * ROWS + index) * columns;
                    finish(out, sums, added.at(start, 0..columns));
                }
            },
        );
    };
    let right = Panels::new(kernel, b.t());
    let scratch = || (Panels::default(), Buffers::default());
    par_build_of(
        rows * columns,
        block,
        numbers,
        scratch,
        |(left, buffers), out, number| {
            let start = number * ROWS;
            let a = a.rows(start..rows.min(start + ROWS));
            if in_place(a, 0).is_none() {
                left.fill(kernel, a, buffers);
            }
            let rows = |number| in_place(a, number).unwrap_or_else(|| left.rows(number));
            kernel.run(|| {
                tiles(kernel, (a.shape()[0], rows), &right, |row, range, sums| {
                    let added = added.at((start + row) * columns, range.clone());
                    let place = row * columns;
                    finish(
                        &mut out[place + range.start..place + range.end],
                        sums,
                        added,
                    );
                });
            });
        },
    )
}

/// `a^T b` in a new vector, row by row, for matrices of many more rows than columns. Without a kernel as on other CPUs.
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
        return gemm::product_over_rows(a.with(&widened(a)), b.with(&widened(b)));
    };
    // A power of two: few threads get equally many.
    let parts = 1 << (rows / PART).clamp(1, PARTS).ilog2();
    let part = rows.div_ceil(parts).max(1);
    let scratch = || (Panels::default(), Panels::default(), Buffers::default());
    let sums = (0..rows.div_ceil(part)).into_par_iter();
    let sums = sums.map_init(scratch, |(left, right, buffers), number| {
        let range = number * part..rows.min((number + 1) * part);
        left.fill(kernel, a.rows(range.clone()).t(), buffers);
        right.fill(kernel, b.rows(range).t(), buffers);
        let mut out = vec![0.0; a_columns * columns];
        kernel.run(|| {
            tiles(
                kernel,
                (a_columns, |number| left.rows(number)),
                right,
                |row, range, sums| {
                    let place = row * columns;
                    out[place + range.start..place + range.end].copy_from_slice(sums);
                },
            );
        });
        out
    });
    added_up(sums.collect(), a_columns * columns)
}

/// The sum of vectors in their order.
fn added_up(vectors: Vec<Vec<f32>>, len: usize) -> Vec<f32> {
    const BLOCK: usize = 16 * 1024;
    let mut vectors = vectors.into_iter();
    let mut total = vectors.next().unwrap_or_else(|| vec![0.0; len]);
    let others: Vec<Vec<f32>> = vectors.collect();
    total
        .par_chunks_mut(BLOCK)
        .enumerate()
        .for_each(|(number, total)| {
            for other in &others {
                for (sum, x) in total.iter_mut().zip(&other[number * BLOCK..]) {
                    *sum += x;
                }
            }
        });
    total
}

/// Writes sums with a bias. Where there is a residual they are rounded before it is added, as where both are operations of their own.
#[inline(always)]
fn finish<T: Number>(out: &mut [T], sums: &[f32], added: Added<'_, T>) {
    let (bias, residual) = (
        added.bias.map(|bias| bias.as_chunks::<LANES>()),
        added.residual.map(|residual| residual.as_chunks::<LANES>()),
    );
    let (out, out_rest) = out.as_chunks_mut::<LANES>();
    let (sums, sums_rest) = sums.as_chunks::<LANES>();
    for (index, (out, sums)) in out.iter_mut().zip(sums).enumerate() {
        let mut sums = *sums;
        if let Some((bias, _)) = bias {
            add(&mut sums, &bias[index]);
        }
        if let Some((residual, _)) = residual {
            for sum in &mut sums {
                *sum = bf16::rounded(*sum).widened();
            }
            add(&mut sums, &residual[index]);
        }
        for (out, sum) in out.iter_mut().zip(&sums) {
            *out = T::rounded(*sum);
        }
    }
    for (index, (out, sum)) in out_rest.iter_mut().zip(sums_rest).enumerate() {
        let sum = sum + bias.map_or(0.0, |(_, rest)| rest[index]);
        *out = T::rounded(match residual {
            Some((_, rest)) => bf16::rounded(sum).widened() + rest[index].widened(),
            None => sum,
        });
    }
}

#[inline(always)]
fn add<T: Number>(sums: &mut [f32; LANES], others: &[T; LANES]) {
    for (sum, x) in sums.iter_mut().zip(others) {
        *sum += x.widened();
    }
}

/// The numbers of a matrix, rounded to bf16, as f32.
fn widened<T: Number>(matrix: Matrix<'_, T>) -> Vec<f32> {
    let values = matrix.values().par_iter();
    values
        .map(|x| bf16::from_bits(x.bits()).widened())
        .collect()
}
