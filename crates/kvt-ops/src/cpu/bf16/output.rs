//! Where the sums of a product go, and what is added to them.

use std::mem::MaybeUninit;
use std::ops::Range;

use burn::tensor::bf16;

use super::pack::{LANES, Line, WIDTH};
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

/// Where sums of tiles are written. Not closures, which would not be inlined where they are compiled for the CPU's instructions.
pub(super) trait Output {
    /// Asks for the places of a tile's columns in a row, from `first` on.
    fn prefetch(&self, kernel: Kernel, row: usize, first: usize);

    /// Takes the sums in some columns of a row.
    fn write(&mut self, row: usize, columns: Range<usize>, sums: &[f32]);

    /// Takes the sums in as many columns of a row as a tile has, from `first` on.
    fn write_all(&mut self, kernel: Kernel, row: usize, first: usize, sums: &[f32; WIDTH]);

    /// Takes the sums of a row of a tile, of which the last columns may be missing.
    #[inline(always)]
    fn take(&mut self, kernel: Kernel, row: usize, columns: Range<usize>, sums: &[f32; WIDTH]) {
        if columns.len() == WIDTH {
            self.write_all(kernel, row, columns.start, sums);
        } else {
            let sums = &sums[..columns.len()];
            self.write(row, columns, sums);
        }
    }
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
    fn prefetch(&self, kernel: Kernel, row: usize, first: usize) {
        let place = self.out.as_ptr().wrapping_add(row * self.stride + first);
        kernel.prefetch(place);
        kernel.prefetch(place.wrapping_add(LANES));
    }

    #[inline(always)]
    fn write(&mut self, row: usize, columns: Range<usize>, sums: &[f32]) {
        let out = &mut self.out[row * self.stride..][columns];
        let products = out.iter_mut().zip(sums);
        match self.write {
            Write::Replace => products.for_each(|(out, sum)| *out = self.factor * sum),
            Write::Add => products.for_each(|(out, sum)| *out += self.factor * sum),
        }
    }

    #[inline(always)]
    fn write_all(&mut self, _: Kernel, row: usize, first: usize, sums: &[f32; WIDTH]) {
        // Values, which nothing that is written can change: the loops become instructions for many numbers.
        let products = sums.map(|sum| self.factor * sum);
        let out = &mut self.out[row * self.stride + first..][..WIDTH];
        match self.write {
            Write::Replace => out.copy_from_slice(&products),
            Write::Add => {
                for (out, product) in out.iter_mut().zip(products) {
                    *out += product;
                }
            }
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
    fn prefetch(&self, kernel: Kernel, row: usize, first: usize) {
        let place = row * self.columns + first;
        let numbers = size_of::<Line>() / size_of::<T>();
        for place in (place..place + WIDTH).step_by(numbers) {
            kernel.prefetch(self.out.as_ptr().wrapping_add(place));
            if let Some(residual) = self.added.residual {
                kernel.prefetch(residual.as_ptr().wrapping_add(place));
            }
        }
    }

    #[inline(always)]
    fn write(&mut self, row: usize, range: Range<usize>, sums: &[f32]) {
        let place = row * self.columns;
        let added = self.added.at(place, range.clone());
        let out = &mut self.out[place + range.start..place + range.end];
        finish(out, sums, added);
    }

    #[inline(always)]
    fn write_all(&mut self, kernel: Kernel, row: usize, first: usize, sums: &[f32; WIDTH]) {
        let place = row * self.columns;
        let added = self.added.at(place, first..first + WIDTH);
        let sums = plus(*sums, added, |sums| kernel.round(&sums));
        self.out[place + first..][..WIDTH].write_copy_of_slice(&T::row(kernel, &sums));
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

/// Writes sums with the added terms.
#[inline(always)]
pub(super) fn finish<T: Number>(out: &mut [MaybeUninit<T>], sums: &[f32], added: Added<'_, T>) {
    #[inline(always)]
    fn part<T: Number, const N: usize>(
        out: &mut [MaybeUninit<T>; N],
        sums: &[f32; N],
        added: Added<'_, T>,
    ) {
        let sums = plus(*sums, added, |sums| sums.map(bf16::rounded));
        out.write_copy_of_slice(&sums.map(T::rounded));
    }
    let (out, out_rest) = out.as_chunks_mut::<LANES>();
    let (sums, sums_rest) = sums.as_chunks::<LANES>();
    let whole = out.len() * LANES;
    for (index, (out, sums)) in out.iter_mut().zip(sums).enumerate() {
        part(out, sums, added.at(0, index * LANES..(index + 1) * LANES));
    }
    for (index, (out, sum)) in out_rest.iter_mut().zip(sums_rest).enumerate() {
        let index = whole + index;
        part(
            std::array::from_mut(out),
            &[*sum],
            added.at(0, index..index + 1),
        );
    }
}

/// Sums with a bias. If there is a residual, they are rounded before it is added, as in two operations.
#[inline(always)]
fn plus<T: Number, const N: usize>(
    mut sums: [f32; N],
    added: Added<'_, T>,
    round: impl FnOnce([f32; N]) -> [bf16; N],
) -> [f32; N] {
    if let Some(bias) = added.bias {
        add(&mut sums, bias);
    }
    let Some(residual) = added.residual else {
        return sums;
    };
    let mut sums = round(sums).map(Number::widened);
    add(&mut sums, residual);
    sums
}

#[inline(always)]
fn add<T: Number>(sums: &mut [f32], others: &[T]) {
    for (sum, x) in sums.iter_mut().zip(others) {
        *sum += x.widened();
    }
}
