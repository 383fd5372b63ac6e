//! Where the sums of a product go, and what is added to them.

use std::mem::MaybeUninit;
use std::ops::Range;

use burn::tensor::bf16;

use super::pack::{LANES, WIDTH};
use super::tiles::{Left, Panels, tiles};
use super::{Kernel, Number};
use crate::cpu::gemm::{Matrix, Write};

/// Terms added to a product `[rows, columns]`.
#[derive(Clone, Copy)]
pub(crate) struct Added<'a, T> {
    /// Added to every row, `[columns]`.
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

    /// The terms for some rows of `columns` columns.
    pub(super) fn rows(&self, rows: Range<usize>, columns: usize) -> Self {
        let place = rows.start * columns..rows.end * columns;
        Self {
            bias: self.bias,
            residual: self.residual.map(|residual| &residual[place]),
        }
    }

    /// The terms for some columns of the row that begins at `start`.
    #[inline(always)]
    pub(super) fn at(&self, start: usize, columns: Range<usize>) -> Self {
        let place = start + columns.start..start + columns.end;
        Self {
            bias: self.bias.map(|bias| &bias[columns]),
            residual: self.residual.map(|residual| &residual[place]),
        }
    }
}

/// Where sums of tiles are written. Not a closure, which would not be inlined where it is compiled for the CPU's instructions.
pub(super) trait Output {
    /// Takes the sums in some columns of a row.
    fn write(&mut self, row: usize, columns: Range<usize>, sums: &[f32]);
}

/// Rows with some distance between them.
pub(super) struct Strided<'a> {
    pub(super) out: &'a mut [f32],
    pub(super) stride: usize,
    pub(super) write: Write,
    pub(super) factor: f32,
}

impl Output for Strided<'_> {
    #[inline(always)]
    fn write(&mut self, row: usize, columns: Range<usize>, sums: &[f32]) {
        let out = &mut self.out[row * self.stride..][columns];
        let products = out.iter_mut().zip(sums);
        match self.write {
            Write::Replace => products.for_each(|(out, sum)| *out = self.factor * sum),
            Write::Add => products.for_each(|(out, sum)| *out += self.factor * sum),
        }
    }
}

/// Rows side by side, which hold nothing yet, with the added terms.
struct Finished<'a, T> {
    out: &'a mut [MaybeUninit<T>],
    columns: usize,
    added: Added<'a, T>,
}

impl<T: Number> Output for Finished<'_, T> {
    #[inline(always)]
    fn write(&mut self, row: usize, range: Range<usize>, sums: &[f32]) {
        let place = row * self.columns;
        let added = self.added.at(place, range.clone());
        let out = &mut self.out[place + range.start..place + range.end];
        finish(out, sums, added);
    }
}

/// All tiles of a product, plus the added terms, on this thread.
pub(super) fn finished_tiles<'a, A: Number, T: Number>(
    kernel: Kernel,
    matrix: Matrix<'_, A>,
    left: &mut Left,
    right: &Panels<WIDTH>,
    added: Added<'_, T>,
    out: &'a mut [MaybeUninit<T>],
) -> &'a mut [T] {
    let [columns, inner] = right.shape();
    assert_eq!(matrix.shape()[1], inner, "matrices that do not fit");
    assert_eq!(
        out.len(),
        matrix.shape()[0] * columns,
        "a product that does not fit"
    );
    let output = Finished {
        out: &mut *out,
        columns,
        added,
    };
    tiles(kernel, matrix, left, right, output);
    #[expect(unsafe_code, reason = "numbers that are not filled with zeros first")]
    // SAFETY: the tiles cover all rows and columns.
    unsafe {
        out.assume_init_mut()
    }
}

/// Writes sums with a bias. If there is a residual, they are rounded before it is added, as in two operations.
#[inline(always)]
pub(super) fn finish<T: Number>(out: &mut [MaybeUninit<T>], sums: &[f32], added: Added<'_, T>) {
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
            out.write(T::rounded(*sum));
        }
    }
    for (index, (out, sum)) in out_rest.iter_mut().zip(sums_rest).enumerate() {
        let sum = sum + bias.map_or(0.0, |(_, rest)| rest[index]);
        out.write(T::rounded(match residual {
            Some((_, rest)) => bf16::rounded(sum).widened() + rest[index].widened(),
            None => sum,
        }));
    }
}

#[inline(always)]
fn add<T: Number>(sums: &mut [f32; LANES], others: &[T; LANES]) {
    for (sum, x) in sums.iter_mut().zip(others) {
        *sum += x.widened();
    }
}
