//! Matrices in panels, and the tiles of their product.

use std::ops::Range;

use rayon::prelude::*;

use super::amx::{self, Tiles};
use super::pack::{Buffers, HEIGHT, LANES, Rows, VECTORS, WIDTH, pack};
use super::{Kernel, Number, Output};
use crate::cpu::gemm::Matrix;

/// A matrix in panels of `W` rows.
pub(super) struct Panels<const W: usize> {
    values: Vec<[u32; W]>,
    rows: usize,
    /// Numbers per row, and pairs of them, padded.
    numbers: usize,
    pairs: usize,
}

impl<const W: usize> Default for Panels<W> {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            rows: 0,
            numbers: 0,
            pairs: 1,
        }
    }
}

impl<const W: usize> Panels<W> {
    /// Packs a matrix on all threads.
    pub(super) fn new<T: Number>(kernel: Kernel, matrix: Matrix<'_, T>) -> Self {
        let mut panels = Self::default();
        panels.reshape(kernel, matrix.shape());
        let values = panels.values.par_chunks_mut(panels.pairs).enumerate();
        values.for_each_init(Buffers::default, |buffers, (number, panel)| {
            kernel.run(|| pack(panel, matrix, number * W, buffers));
        });
        panels
    }

    /// Packs a matrix on this thread, reusing the memory of the previous one.
    pub(super) fn fill<T: Number>(
        &mut self,
        kernel: Kernel,
        matrix: Matrix<'_, T>,
        buffers: &mut Buffers,
    ) {
        self.reshape(kernel, matrix.shape());
        kernel.run(|| {
            for (number, panel) in self.values.chunks_mut(self.pairs).enumerate() {
                pack(panel, matrix, number * W, buffers);
            }
        });
    }

    /// The pairs of a panel.
    fn panel(&self, number: usize) -> &[[u32; W]] {
        &self.values[number * self.pairs..][..self.pairs]
    }

    fn reshape(&mut self, kernel: Kernel, [rows, numbers]: [usize; 2]) {
        (self.rows, self.numbers) = (rows, numbers);
        self.pairs = numbers.div_ceil(2).max(1).next_multiple_of(kernel.step());
        self.values.resize(rows.div_ceil(W) * self.pairs, [0; W]);
    }
}

/// The left matrix of a product, packed as far as the kernel cannot read it where it is stored; reused.
#[derive(Default)]
pub(super) struct Left {
    panels: Panels<HEIGHT>,
    /// For AMX: one row after another, padded with zeros.
    rows: Vec<[u16; 2]>,
    /// Sixteen columns of a matrix, before they become rows.
    sixteen: Panels<16>,
    buffers: Buffers,
}

/// Computes all tiles of a product on this thread.
///
/// # Panics
/// If the matrices do not fit.
pub(super) fn tiles<A: Number, T: Number>(
    kernel: Kernel,
    matrix: Matrix<'_, A>,
    left: &mut Left,
    right: &Panels<WIDTH>,
    mut output: Output<'_, T>,
) {
    assert_eq!(matrix.shape()[1], right.numbers, "matrices that do not fit");
    if let Some(tiles) = kernel.tiles() {
        return left.large_tiles(kernel, &tiles, matrix, right, output);
    }
    if in_place(matrix, 0).is_none() {
        left.panels.fill(kernel, matrix, &mut left.buffers);
    }
    let packed = |number| Rows::Packed(left.panels.panel(number));
    let rows_of = |number| in_place(matrix, number).unwrap_or_else(|| packed(number));
    let rows = matrix.shape()[0];
    kernel.run(|| {
        let mut sums = [[[0.0; LANES]; VECTORS]; HEIGHT];
        for (columns, range) in right.panels() {
            for number in 0..rows.div_ceil(HEIGHT) {
                kernel.tile(rows_of(number), bytemuck::cast_slice(columns), &mut sums);
                for (row, sums) in (number * HEIGHT..rows).zip(&sums) {
                    output.write(row, range.clone(), &sums.as_flattened()[..range.len()]);
                }
            }
        }
    });
}

impl Panels<WIDTH> {
    /// Every panel and its columns.
    fn panels(&self) -> impl Iterator<Item = (&[[u32; WIDTH]], Range<usize>)> {
        (0..self.rows.div_ceil(WIDTH)).map(|number| {
            let range = number * WIDTH..self.rows.min((number + 1) * WIDTH);
            (self.panel(number), range)
        })
    }
}

impl Left {
    /// [`tiles`] with AMX.
    fn large_tiles<A: Number, T: Number>(
        &mut self,
        kernel: Kernel,
        tiles: &Tiles,
        matrix: Matrix<'_, A>,
        right: &Panels<WIDTH>,
        mut output: Output<'_, T>,
    ) {
        let (rows, [down, along]) = (matrix.shape()[0], matrix.strides());
        let has_steps = matrix.shape()[1] == 2 * right.pairs;
        let is_stored = has_steps && along == 1 && down % 2 == 0 && A::pairs_of(&[]).is_some();
        // Tiles of rows that are read where they are stored.
        let whole = if is_stored { rows / amx::HEIGHT } else { 0 };
        let first = whole * amx::HEIGHT;
        kernel.run(|| self.pack_rows(kernel, matrix, first, right.pairs));
        let stored = |number: usize| {
            let start = number * amx::HEIGHT * down;
            let rows = &matrix.values()[start..][..(amx::HEIGHT - 1) * down + 2 * right.pairs];
            Some((A::pairs_of(rows)?, down / 2))
        };
        let packed = |number: usize| {
            let start = (number - whole) * amx::HEIGHT * right.pairs;
            (&self.rows[start..], right.pairs)
        };
        kernel.run(|| {
            let mut sums = [[0.0; WIDTH]; amx::HEIGHT];
            for (columns, range) in right.panels() {
                for number in 0..rows.div_ceil(amx::HEIGHT) {
                    let stored = (number < whole).then(|| stored(number)).flatten();
                    let (pairs, stride) = stored.unwrap_or_else(|| packed(number));
                    tiles.product(pairs, stride, columns, &mut sums);
                    for (row, sums) in (number * amx::HEIGHT..rows).zip(&sums) {
                        output.write(row, range.clone(), &sums[..range.len()]);
                    }
                }
            }
        });
    }

    /// Packs the rows from `first` on, `pairs` long, with rows of zeros until the last tile is full.
    #[inline(always)]
    fn pack_rows<T: Number>(
        &mut self,
        kernel: Kernel,
        matrix: Matrix<'_, T>,
        first: usize,
        pairs: usize,
    ) {
        let ([rows, numbers], [down, along]) = (matrix.shape(), matrix.strides());
        let count = (rows - first).next_multiple_of(amx::HEIGHT);
        self.rows.clear();
        self.rows.resize(count * pairs, [0; 2]);
        if along == 1 {
            for (to, row) in self.rows.chunks_exact_mut(pairs).zip(first..rows) {
                let row = &matrix.values()[row * down..][..numbers];
                let bits = T::bits_of(row, &mut self.buffers[0]);
                to.as_flattened_mut()[..numbers].copy_from_slice(bits);
            }
            return;
        }
        // Adjacent numbers belong to different rows: sixteen of them at a time become pairs, then rows.
        let sixteen = &mut self.sixteen;
        sixteen.reshape(kernel, [16, numbers]);
        for (start, to) in (first..rows)
            .step_by(16)
            .zip(self.rows.chunks_exact_mut(16 * pairs))
        {
            pack(&mut sixteen.values, matrix, start, &mut self.buffers);
            for (index, to) in to.chunks_exact_mut(pairs).enumerate() {
                for (to, from) in to.iter_mut().zip(&sixteen.values) {
                    *to = bytemuck::cast(from[index]);
                }
            }
        }
    }
}

/// The rows of a tile, if the kernel can read them as they are stored. Rows past the last repeat the last row.
#[inline(always)]
pub(super) fn in_place<T: Number>(matrix: Matrix<'_, T>, number: usize) -> Option<Rows<'_>> {
    let ([rows, numbers], [down, along]) = (matrix.shape(), matrix.strides());
    if along != 1 || numbers == 0 {
        return None;
    }
    let row = |index: usize| {
        let start = (number * HEIGHT + index).min(rows - 1) * down;
        T::pairs_of(&matrix.values()[start..start + numbers])
    };
    let mut together = [row(0)?; HEIGHT];
    for (index, pairs) in together.iter_mut().enumerate() {
        *pairs = row(index)?;
    }
    Some(Rows::InPlace(together))
}
