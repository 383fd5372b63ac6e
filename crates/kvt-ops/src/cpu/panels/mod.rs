//! Products with a matrix that is packed once: in panels of up to 64 columns, or of 16, which a kernel reads line by line of the cache, to make
//! tiles of up to 12 rows.
//!
//! Each sum is made in order, whatever the rows. CPUs with neither AVX-512 nor AVX2 have no kernel.

use std::mem::MaybeUninit;
use std::ops::Range;

use rayon::prelude::*;

use super::buffer::new_values;
use super::gemm::{Matrix, Write};
use crate::contiguous::cpu::transpose;
pub(crate) use kernel::Kernel;

#[cfg_attr(not(target_arch = "x86_64"), path = "kernel/none.rs")]
mod kernel;

/// Numbers in a line of the cache.
const LINE: usize = 16;

/// Minimum number of rows for which it pays to pack a matrix.
pub(crate) const FEW: usize = 24;

/// Part of a row of a panel, in a whole line of the cache: one that straddles a line takes two reads.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([f32; LINE]);

/// A matrix in panels of columns; columns that are missing in a line are zeros.
pub(crate) struct Panels {
    kernel: Kernel,
    values: Vec<Line>,
    shape: [usize; 2],
}

/// What a tile writes, in some columns of rows of the output.
#[cfg_attr(
    not(target_arch = "x86_64"),
    expect(dead_code, reason = "there is no kernel that reads them")
)]
enum Output<'a> {
    /// The products with a bias and a residual: what was there before is not read.
    Layer {
        out: &'a mut [MaybeUninit<f32>],
        bias: &'a [f32],
        residual: Option<&'a [f32]>,
    },
    /// A factor times the products.
    Product {
        out: &'a mut [f32],
        write: Write,
        factor: f32,
    },
}

/// How the lines of a row are divided: into as few panels as there can be, all of about the same width.
#[derive(Clone, Copy)]
struct Division {
    lines: usize,
    panels: usize,
}

impl Division {
    fn new(kernel: Kernel, columns: usize) -> Self {
        let lines = columns.div_ceil(LINE);
        let panels = lines.div_ceil(kernel.lines());
        Self { lines, panels }
    }

    /// The lines of each panel.
    fn all(self) -> impl Iterator<Item = Range<usize>> {
        let start = move |panel| panel * self.lines / self.panels;
        (0..self.panels).map(move |panel| start(panel)..start(panel + 1))
    }
}

impl Panels {
    /// Packs a matrix whose rows or columns follow each other in memory, on all threads.
    pub(crate) fn new(kernel: Kernel, matrix: Matrix<'_>) -> Self {
        Self::packed(kernel, matrix, true)
    }

    /// As [`new`](Self::new), on this thread.
    pub(crate) fn on_this_thread(kernel: Kernel, matrix: Matrix<'_>) -> Self {
        Self::packed(kernel, matrix, false)
    }

    fn packed(kernel: Kernel, matrix: Matrix<'_>, in_parallel: bool) -> Self {
        let shape @ [inputs, outputs] = matrix.shape();
        let division = Division::new(kernel, outputs);
        let values = new_values(division.lines * inputs, |places| {
            let mut panels = Vec::with_capacity(division.panels);
            let mut rest = &mut *places;
            for lines in division.all() {
                let (panel, others) = rest.split_at_mut(lines.len() * inputs);
                panels.push((lines, panel));
                rest = others;
            }
            assert!(rest.is_empty(), "lines without a panel");
            if in_parallel {
                panels
                    .into_par_iter()
                    .for_each(|(lines, panel)| pack(matrix, lines, panel));
            } else {
                for (lines, panel) in panels {
                    pack(matrix, lines, panel);
                }
            }
            #[expect(unsafe_code, reason = "a vector that is not filled with zeros first")]
            // SAFETY: the panels have all lines, and `pack` has written each of them.
            unsafe {
                places.assume_init_mut()
            }
        });
        Self {
            kernel,
            values,
            shape,
        }
    }

    /// Rows and columns of the matrix.
    pub(crate) fn shape(&self) -> [usize; 2] {
        self.shape
    }

    /// The products of `x` with the matrix, and a bias and a residual: every number of `out` is written.
    ///
    /// # Panics
    /// If the shapes do not match.
    pub(crate) fn affine<'o>(
        &self,
        out: &'o mut [MaybeUninit<f32>],
        x: Matrix<'_>,
        bias: &[f32],
        residual: Option<&[f32]>,
    ) -> &'o mut [f32] {
        let outputs = self.shape[1];
        assert_eq!(
            out.len(),
            x.shape()[0] * outputs,
            "matrices that do not fit"
        );
        self.each_tile(x.shape()[0], |columns, rows, panel| {
            let range = rows.start * outputs..rows.end * outputs;
            let added = Output::Layer {
                out: &mut out[range.clone()],
                bias,
                residual: residual.map(|residual| &residual[range]),
            };
            self.kernel
                .tile(added, outputs, columns, x.rows(rows), panel);
        });
        #[expect(unsafe_code, reason = "a slice that is not filled with zeros first")]
        // SAFETY: the tiles of all panels and rows have written every number.
        unsafe {
            out.assume_init_mut()
        }
    }

    /// Writes `factor` times the products of `x` with the matrix to rows that start `stride` apart, or adds them.
    ///
    /// # Panics
    /// If the shapes do not match, or the product does not fit in `out`.
    pub(crate) fn multiply(
        &self,
        (out, stride): (&mut [f32], usize),
        write: Write,
        factor: f32,
        x: Matrix<'_>,
    ) {
        self.each_tile(x.shape()[0], |columns, rows, panel| {
            let product = Output::Product {
                out: &mut out[rows.start * stride..],
                write,
                factor,
            };
            self.kernel
                .tile(product, stride, columns, x.rows(rows), panel);
        });
    }

    /// Calls `tile` with the columns and rows of each tile, and the panel of these columns.
    fn each_tile(&self, rows: usize, mut tile: impl FnMut(Range<usize>, Range<usize>, &[Line])) {
        let [inputs, outputs] = self.shape;
        for lines in Division::new(self.kernel, outputs).all() {
            let columns = lines.start * LINE..outputs.min(lines.end * LINE);
            let panel = &self.values[lines.start * inputs..lines.end * inputs];
            let mut row = 0;
            while row < rows {
                let height = self.kernel.height(lines.len(), rows - row);
                tile(columns.clone(), row..row + height, panel);
                row += height;
            }
        }
    }
}

/// Writes some lines of each row of a matrix to a panel.
fn pack(matrix: Matrix<'_>, lines: Range<usize>, panel: &mut [MaybeUninit<Line>]) {
    let ([inputs, outputs], [down, along]) = (matrix.shape(), matrix.strides());
    let (first, width) = (lines.start * LINE, lines.len() * LINE);
    // The last line may have fewer columns.
    let count = width.min(outputs - first);
    let numbers = as_numbers(panel);
    if along == 1 {
        for (input, to) in numbers.chunks_exact_mut(width).enumerate() {
            let from = &matrix.values()[input * down + first..];
            to[..count].write_copy_of_slice(&from[..count]);
        }
    } else {
        let from = &matrix.values()[first * along..];
        transpose(numbers, width, from, [count, inputs], along);
    }
    for to in numbers.chunks_exact_mut(width) {
        to[count..].fill(MaybeUninit::new(0.0));
    }
}

/// The places of the numbers of lines.
fn as_numbers(lines: &mut [MaybeUninit<Line>]) -> &mut [MaybeUninit<f32>] {
    #[expect(unsafe_code, reason = "places that hold nothing yet")]
    // SAFETY: a line consists of as many numbers, and either may hold nothing.
    unsafe {
        std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), lines.len() * LINE)
    }
}

#[cfg(test)]
mod tests;
