//! Matrices in panels, and the tiles of their product.

use std::ops::Range;

use rayon::prelude::*;

use super::pack::{Buffers, HEIGHT, LANES, Rows, VECTORS, WIDTH, pack};
use super::{Kernel, Number};
use crate::cpu::gemm::Matrix;

/// A matrix in panels of `W` rows.
pub(super) struct Panels<const W: usize> {
    values: Vec<[u32; W]>,
    rows: usize,
    /// Pairs of numbers per row.
    pairs: usize,
}

impl<const W: usize> Default for Panels<W> {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            rows: 0,
            pairs: 1,
        }
    }
}

impl<const W: usize> Panels<W> {
    /// Packs a matrix on all threads.
    pub(super) fn new<T: Number>(kernel: Kernel, matrix: Matrix<'_, T>) -> Self {
        let mut panels = Self::default();
        panels.reshape(matrix.shape());
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
        self.reshape(matrix.shape());
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

    fn reshape(&mut self, [rows, numbers]: [usize; 2]) {
        self.rows = rows;
        self.pairs = numbers.div_ceil(2).max(1);
        self.values.resize(rows.div_ceil(W) * self.pairs, [0; W]);
    }
}

impl Panels<HEIGHT> {
    /// The rows of a tile.
    pub(super) fn rows(&self, number: usize) -> Rows<'_> {
        Rows::Packed(self.panel(number))
    }
}

/// Computes all tiles of a product, from the number of rows on the left and the rows of each tile. `write` gets a row, the
/// columns of the tile, and the sums in these columns.
#[inline(always)]
pub(super) fn tiles<'a>(
    kernel: Kernel,
    (rows, rows_of): (usize, impl Fn(usize) -> Rows<'a>),
    right: &Panels<WIDTH>,
    mut write: impl FnMut(usize, Range<usize>, &[f32]),
) {
    let mut sums = [[[0.0; LANES]; VECTORS]; HEIGHT];
    for number in 0..right.rows.div_ceil(WIDTH) {
        let columns = right.panel(number);
        let range = number * WIDTH..right.rows.min((number + 1) * WIDTH);
        for number in 0..rows.div_ceil(HEIGHT) {
            kernel.tile(rows_of(number), bytemuck::cast_slice(columns), &mut sums);
            for (row, sums) in (number * HEIGHT..rows).zip(&sums) {
                write(row, range.clone(), &sums.as_flattened()[..range.len()]);
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
