//! Products of rows with the weight of a layer, added to an output block by block.
//!
//! On CPUs with AVX-512 the weight is packed once, for all blocks, in panels of 32 columns, and a kernel adds tiles of up to 12
//! rows; each sum is made in order, whatever the blocks. Other CPUs use the `gemm` crate, which packs the weight for each block.

use std::ops::Range;

use rayon::prelude::*;

use super::buffer::par_build;
use super::gemm::{Matrix, Parallelism, Write, multiply_on, threads_of_each};
use kernel::Kernel;

#[cfg_attr(not(target_arch = "x86_64"), path = "no_kernel.rs")]
mod kernel;

/// Numbers per register.
const LANES: usize = 16;

/// Columns per panel: two registers.
const WIDTH: usize = 2 * LANES;

/// Maximum number of rows per tile.
const HEIGHT: usize = 12;

/// Maximum number of values in the widest rows of a block: they stay in the cache of a core until the block is done.
const BLOCK: usize = 96 * 1024;

/// The weight of a layer, `[inputs, outputs]`.
pub(crate) enum Weight<'a> {
    Packed(Panels),
    Plain(Matrix<'a>),
}

/// A matrix in panels of columns; missing columns are zeros.
pub(crate) struct Panels {
    kernel: Kernel,
    values: Vec<[f32; WIDTH]>,
    shape: [usize; 2],
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
        let kernel = Kernel::detect().filter(|_| rows >= 2 * HEIGHT);
        Self::on(kernel, matrix)
    }

    fn on(kernel: Option<Kernel>, matrix: Matrix<'a>) -> Self {
        match kernel {
            Some(kernel) => Self::Packed(Panels::new(kernel, matrix)),
            None => Self::Plain(matrix),
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
            Self::Plain(_) => plain_height(rows, width),
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

    /// `out += x W`, for the rows of a block.
    ///
    /// # Panics
    /// If the shapes do not match.
    pub(crate) fn add_product(&self, blocks: Blocks, out: &mut [f32], x: Matrix<'_>) {
        match self {
            Self::Packed(panels) => panels.add_product(out, x),
            Self::Plain(weight) => {
                let out = (out, weight.shape()[1]);
                multiply_on(blocks.threads, out, Write::Add, 1.0, x, *weight);
            }
        }
    }
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

impl Panels {
    fn new(kernel: Kernel, matrix: Matrix<'_>) -> Self {
        let (shape @ [inputs, outputs], [down, along]) = (matrix.shape(), matrix.strides());
        let panels = outputs.div_ceil(WIDTH);
        let numbers = (0..panels).into_par_iter();
        // A panel is filled with zeros by the thread that packs it: one thread for all of them would take as long as the copies.
        let values: Vec<[f32; WIDTH]> = par_build(
            panels * inputs,
            inputs,
            numbers,
            |panel: &mut [[f32; WIDTH]], number| {
                let first = number * WIDTH;
                let count = WIDTH.min(outputs - first);
                for (input, to) in panel.iter_mut().enumerate() {
                    let from = &matrix.values()[input * down + first * along..];
                    if along == 1 {
                        to[..count].copy_from_slice(&from[..count]);
                    } else {
                        let from = from.iter().step_by(along);
                        to[..count]
                            .iter_mut()
                            .zip(from)
                            .for_each(|(to, from)| *to = *from);
                    }
                }
            },
        );
        Self {
            kernel,
            values,
            shape,
        }
    }

    fn add_product(&self, out: &mut [f32], x: Matrix<'_>) {
        let ([inputs, outputs], [rows, width]) = (self.shape, x.shape());
        assert!(
            inputs == width && out.len() == rows * outputs,
            "matrices that do not fit"
        );
        let panels = self.values.chunks_exact(inputs.max(1)).enumerate();
        for (number, panel) in panels {
            let columns = number * WIDTH..outputs.min((number + 1) * WIDTH);
            let mut row = 0;
            while row < rows {
                let height = match rows - row {
                    few @ ..4 => few,
                    4..8 => 4,
                    8..HEIGHT => 8,
                    _ => HEIGHT,
                };
                let x = x.rows(row..row + height);
                let out = &mut out[row * outputs..(row + height) * outputs];
                self.kernel
                    .add_tile(out, outputs, columns.clone(), x, panel);
                row += height;
            }
        }
    }
}

#[cfg(test)]
mod tests;
