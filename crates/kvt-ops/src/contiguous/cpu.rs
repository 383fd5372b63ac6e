//! Copies in the order of the shape on the CPU, on all threads: Burn copies blocks of values on one.

use std::mem::MaybeUninit;

use burn::backend::{Flex, TensorMetadata, tensor::FloatTensor};
use burn::tensor::{DType, Element, bf16};
use rayon::prelude::*;

use super::LayoutOps;
use crate::cpu::buffer::{par_build, par_write_with, tensor_of};
use crate::cpu::windows::Place;

/// Rows and columns that are copied together where rows become columns: they stay in the cache.
const TILE: usize = 16;
/// Approximate number of values per block.
const BLOCK: usize = 16 * 1024;

impl LayoutOps for Flex {
    fn contiguous(x: FloatTensor<Self>) -> FloatTensor<Self> {
        contiguous(x)
    }
}

/// The same values in the order of the shape.
#[expect(
    clippy::needless_pass_by_value,
    reason = "a step of a tensor that its caller owns, as in `map(contiguous)`"
)]
pub(crate) fn contiguous(x: FloatTensor<Flex>) -> FloatTensor<Flex> {
    let layout = x.layout();
    let is_ours =
        !layout.is_contiguous() && layout.has_positive_strides() && layout.num_elements() > 0;
    match x.dtype() {
        DType::F32 if is_ours => copied::<f32>(&x),
        DType::BF16 if is_ours => copied::<bf16>(&x),
        _ => x.to_contiguous(),
    }
}

fn copied<T: Element + bytemuck::Pod>(x: &FloatTensor<Flex>) -> FloatTensor<Flex> {
    let layout = x.layout();
    let view = View::new(layout.shape(), layout.strides(), layout.start_offset());
    let (shape, values): (_, &[T]) = (x.shape(), x.storage());
    let rows = view.rows_of_block();
    let part = rows * view.columns.0;
    let len = shape.num_elements();
    let numbers = (0..len.div_ceil(part)).into_par_iter();
    let out = par_write_with(
        len,
        part,
        numbers,
        || (),
        |(), out, number| {
            view.copy_rows(number * rows, out, values);
            #[expect(unsafe_code, reason = "a vector that is not filled with zeros first")]
            // SAFETY: a block has whole rows, all of which have just been written.
            unsafe {
                out.assume_init_mut()
            }
        },
    );
    tensor_of(out, shape)
}

/// Makes columns of the rows of a matrix: `[rows, columns]` with `stride` values from row to row, to columns of the first rows of
/// `out`, which are `width` values apart.
#[inline(always)]
pub(crate) fn transpose<T: Copy + Default, P: Place<T>>(
    out: &mut [P],
    width: usize,
    from: &[T],
    [rows, columns]: [usize; 2],
    stride: usize,
) {
    for left in (0..columns).step_by(TILE) {
        for top in (0..rows).step_by(TILE) {
            let (from, out) = (&from[top * stride + left..], &mut out[left * width + top..]);
            let (height, count) = (TILE.min(rows - top), TILE.min(columns - left));
            if height == TILE && count == TILE {
                transpose_tile(out, width, from, stride);
                continue;
            }
            for column in 0..count {
                for row in 0..height {
                    out[column * width + row].put(from[row * stride + column]);
                }
            }
        }
    }
}

/// The transpose of a matrix whose rows start `stride` apart, on all threads.
pub(crate) fn transposed(values: &[f32], [rows, columns]: [usize; 2], stride: usize) -> Vec<f32> {
    let bands = (0..columns.div_ceil(TILE)).into_par_iter();
    let len = rows * columns;
    par_build(len, TILE * rows, bands, |out: &mut [f32], band| {
        let shape = [rows, out.len() / rows];
        transpose(out, rows, &values[band * TILE..], shape, stride);
    })
}

/// As [`transpose`], for a whole tile.
#[inline(always)]
fn transpose_tile<T: Copy + Default, P: Place<T>>(
    out: &mut [P],
    width: usize,
    from: &[T],
    stride: usize,
) {
    let mut tile = [[T::default(); TILE]; TILE];
    for (row, tile) in tile.iter_mut().enumerate() {
        tile.copy_from_slice(&from[row * stride..][..TILE]);
    }
    for column in 0..TILE {
        let out = &mut out[column * width..][..TILE];
        for (out, row) in out.iter_mut().zip(&tile) {
            out.put(row[column]);
        }
    }
}

/// A view as matrices: all dimensions but the last two that remain after those are joined that follow each other in memory. Each is
/// a length and the stride between its values.
struct View {
    matrices: Vec<(usize, usize)>,
    rows: (usize, usize),
    columns: (usize, usize),
    offset: usize,
}

impl View {
    fn new(shape: &[usize], strides: &[isize], offset: usize) -> Self {
        let mut dims: Vec<(usize, usize)> = Vec::new();
        for (len, stride) in shape.iter().zip(strides) {
            let (len, stride) = (*len, stride.unsigned_abs());
            match dims.last_mut() {
                _ if len == 1 => {}
                Some(last) if last.1 == len * stride => *last = (last.0 * len, stride),
                _ => dims.push((len, stride)),
            }
        }
        let columns = dims.pop().unwrap_or((1, 1));
        let rows = dims.pop().unwrap_or((1, 0));
        Self {
            matrices: dims,
            rows,
            columns,
            offset,
        }
    }

    /// Rows of a block: whole tiles where rows become columns.
    fn rows_of_block(&self) -> usize {
        let rows = (BLOCK / self.columns.0).max(1);
        if self.rows.1 == 1 && self.columns.1 > 1 {
            rows.next_multiple_of(TILE)
        } else {
            rows
        }
    }

    /// The place of a matrix.
    fn start(&self, mut number: usize) -> usize {
        let mut start = self.offset;
        for (len, stride) in self.matrices.iter().rev() {
            start += number % len * stride;
            number /= len;
        }
        start
    }

    /// Copies whole rows, from the one with number `first` among those of all matrices on.
    fn copy_rows<T: Copy + Default>(&self, first: usize, out: &mut [MaybeUninit<T>], values: &[T]) {
        let ((rows, row_stride), (columns, _)) = (self.rows, self.columns);
        let (mut row, mut left) = (first, out);
        while !left.is_empty() {
            let within = row % rows;
            let count = (rows - within).min(left.len() / columns);
            let (part, rest) = left.split_at_mut(count * columns);
            let start = self.start(row / rows) + within * row_stride;
            self.copy_matrix(part, &values[start..]);
            (row, left) = (row + count, rest);
        }
    }

    /// Copies rows of a matrix, whose first value is the first of `values`.
    fn copy_matrix<T: Copy + Default>(&self, out: &mut [MaybeUninit<T>], values: &[T]) {
        let ((_, row_stride), (columns, stride)) = (self.rows, self.columns);
        if stride == 1 {
            for (row, out) in out.chunks_exact_mut(columns).enumerate() {
                out.write_copy_of_slice(&values[row * row_stride..][..columns]);
            }
            return;
        }
        if row_stride == 1 {
            let shape = [columns, out.len() / columns];
            transpose(out, columns, values, shape, stride);
            return;
        }
        for (tile, out) in out.chunks_mut(TILE * columns).enumerate() {
            let from = &values[tile * TILE * row_stride..];
            for first in (0..columns).step_by(TILE) {
                let last = (first + TILE).min(columns);
                for (row, out) in out.chunks_exact_mut(columns).enumerate() {
                    let from = &from[row * row_stride..];
                    for (out, column) in out[first..last].iter_mut().zip(first..last) {
                        out.write(from[column * stride]);
                    }
                }
            }
        }
    }
}
