//! Matrices in panels, and the tiles of their product.

use std::ops::Range;

use rayon::prelude::*;

use super::amx::{self, Tiles};
use super::output::Output;
use super::pack::{Buffers, HEIGHT, LANES, Line, Rows, Sums, WIDTH, filled, pack};
use super::{Kernel, Number};
use crate::cpu::gemm::Matrix;

/// A matrix in panels of `W` rows.
pub(super) struct Panels<const W: usize> {
    lines: Vec<Line>,
    rows: usize,
    /// Numbers per row, and pairs of them, padded.
    numbers: usize,
    pairs: usize,
}

impl<const W: usize> Default for Panels<W> {
    fn default() -> Self {
        Self {
            lines: Vec::new(),
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
        let pairs = panels.pairs;
        let values = panels.values_mut().par_chunks_mut(pairs).enumerate();
        values.for_each_init(Buffers::default, |buffers, (number, panel)| {
            kernel.run(|| pack(kernel, panel, matrix, number * W, buffers));
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
        let pairs = self.pairs;
        kernel.run(|| {
            for (number, panel) in self.values_mut().chunks_mut(pairs).enumerate() {
                pack(kernel, panel, matrix, number * W, buffers);
            }
        });
    }

    /// Rows of the matrix, and numbers in a row.
    pub(super) fn shape(&self) -> [usize; 2] {
        [self.rows, self.numbers]
    }

    /// The pairs of a panel.
    pub(super) fn panel(&self, number: usize) -> &[[u32; W]] {
        let (values, _) = bytemuck::cast_slice(&self.lines).as_chunks();
        &values[number * self.pairs..][..self.pairs]
    }

    /// The pairs of all panels.
    fn values_mut(&mut self) -> &mut [[u32; W]] {
        let len = self.len();
        let (values, _) = bytemuck::cast_slice_mut(&mut self.lines).as_chunks_mut();
        &mut values[..len]
    }

    /// Pairs of rows in all panels.
    fn len(&self) -> usize {
        self.rows.div_ceil(W) * self.pairs
    }

    fn reshape(&mut self, kernel: Kernel, [rows, numbers]: [usize; 2]) {
        (self.rows, self.numbers) = (rows, numbers);
        self.pairs = numbers.div_ceil(2).max(1).next_multiple_of(kernel.step());
        let lines = (self.len() * W).div_ceil(LANES);
        self.lines.resize(lines, Line::default());
    }
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

/// The left matrix of a product, packed as far as the kernel cannot read it where it is stored; reused.
#[derive(Default)]
pub(super) struct Left {
    panels: Panels<HEIGHT>,
    /// For AMX: the rows of one tile after another, padded with zeros, step by step.
    steps: Vec<amx::Step>,
    /// Columns of a matrix, before they become the rows of a tile.
    columns: Panels<{ amx::HEIGHT }>,
    buffers: Buffers,
}

/// Computes all tiles of a product on this thread: every row of the output gets its sums of all columns. Both matrices have the same number of pairs.
///
/// # Panics
/// If the matrices do not fit.
pub(super) fn tiles<A: Number>(
    kernel: Kernel,
    matrix: Matrix<'_, A>,
    left: &mut Left,
    right: &Panels<WIDTH>,
    output: impl Output,
) {
    let numbers = matrix.shape()[1];
    assert_eq!(
        numbers.div_ceil(2),
        right.numbers.div_ceil(2),
        "matrices that do not fit"
    );
    match kernel.tiles() {
        Some(tiles) => left.large_tiles(kernel, &tiles, matrix, right, output),
        None => left.small_tiles(kernel, matrix, right, output),
    }
}

impl Left {
    /// [`tiles`] without AMX.
    fn small_tiles<A: Number>(
        &mut self,
        kernel: Kernel,
        matrix: Matrix<'_, A>,
        right: &Panels<WIDTH>,
        mut output: impl Output,
    ) {
        if in_place(matrix, 0).is_none() {
            self.panels.fill(kernel, matrix, &mut self.buffers);
        }
        let packed = |number| Rows::Packed(self.panels.panel(number));
        let rows_of = |number| in_place(matrix, number).unwrap_or_else(|| packed(number));
        let rows = matrix.shape()[0];
        kernel.run(|| {
            let mut sums = Sums([[0.0; WIDTH]; HEIGHT]);
            for (columns, range) in right.panels() {
                for number in 0..rows.div_ceil(HEIGHT) {
                    let inside = number * HEIGHT..rows.min((number + 1) * HEIGHT);
                    for row in inside.clone() {
                        output.prefetch(kernel, row, range.start);
                    }
                    kernel.tile(rows_of(number), bytemuck::cast_slice(columns), &mut sums);
                    for (row, sums) in inside.zip(&sums.0) {
                        output.take(kernel, row, range.clone(), sums);
                    }
                }
            }
        });
    }

    /// [`tiles`] with AMX.
    fn large_tiles<A: Number>(
        &mut self,
        kernel: Kernel,
        tiles: &Tiles,
        matrix: Matrix<'_, A>,
        right: &Panels<WIDTH>,
        mut output: impl Output,
    ) {
        let rows = matrix.shape()[0];
        let steps = right.pairs / amx::PAIRS;
        kernel.run(|| {
            self.pack_steps(kernel, matrix, steps);
            let mut sums = Sums([[0.0; WIDTH]; amx::HEIGHT]);
            for (columns, range) in right.panels() {
                for (number, steps) in self.steps.chunks_exact(steps).enumerate() {
                    tiles.product(steps, columns, &mut sums);
                    for (row, sums) in (number * amx::HEIGHT..rows).zip(&sums.0) {
                        output.take(kernel, row, range.clone(), sums);
                    }
                }
            }
        });
    }

    /// Packs the rows, with rows of zeros until the last tile is full.
    #[inline(always)]
    fn pack_steps<T: Number>(&mut self, kernel: Kernel, matrix: Matrix<'_, T>, steps: usize) {
        const NUMBERS: usize = 2 * amx::PAIRS;
        let ([rows, numbers], [down, along]) = (matrix.shape(), matrix.strides());
        // Every line is written below.
        let count = rows.div_ceil(amx::HEIGHT) * steps;
        self.steps.resize(count, [Line::default(); amx::HEIGHT]);
        let packed = self.steps.chunks_exact_mut(steps).enumerate();
        if along == 1 {
            for (number, tile) in packed {
                for index in 0..amx::HEIGHT {
                    let row = number * amx::HEIGHT + index;
                    let row = (row < rows).then(|| &matrix.values()[row * down..][..numbers]);
                    for (step, to) in tile.iter_mut().enumerate() {
                        let row = row.and_then(|row| row.get(step * NUMBERS..));
                        let row: [T; NUMBERS] = filled(row);
                        for (to, x) in to[index].0.iter_mut().zip(row) {
                            *to = x.bits();
                        }
                    }
                }
            }
            return;
        }
        // Adjacent numbers belong to different rows: those of a tile become pairs, then rows.
        let columns = &mut self.columns;
        columns.reshape(kernel, [amx::HEIGHT, numbers]);
        for (number, tile) in packed {
            let start = number * amx::HEIGHT;
            pack(
                kernel,
                columns.values_mut(),
                matrix,
                start,
                &mut self.buffers,
            );
            let (steps, _) = columns.values_mut().as_chunks::<{ amx::PAIRS }>();
            for (to, pairs) in tile.iter_mut().zip(steps) {
                for (half, to) in to.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
                    let square = pairs.map(|pairs| pairs.as_chunks::<LANES>().0[half]);
                    *to = bytemuck::cast(kernel.transposed(square));
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
