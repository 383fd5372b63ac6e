//! Copies in the order of the shape on the CPU, on all threads: Burn copies blocks of values on one.

use burn::backend::{Flex, TensorMetadata, tensor::FloatTensor};
use burn::tensor::{DType, Element, bf16};
use rayon::prelude::*;

use super::LayoutOps;
use crate::cpu::buffer::{par_build, tensor_of};

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
    let rows = (BLOCK / view.columns.0).max(1);
    let part = rows * view.columns.0;
    let len = shape.num_elements();
    let numbers = (0..len.div_ceil(part)).into_par_iter();
    let out = par_build(len, part, numbers, |out: &mut [T], number| {
        view.copy_rows(number * rows, out, values);
    });
    tensor_of(out, shape)
}

/// Makes rows of a whole tile, from column `first` on, of its columns, which are `stride` apart.
fn transpose<T: Copy + Default>(
    from: &[T],
    stride: usize,
    out: &mut [T],
    columns: usize,
    first: usize,
) {
    let mut tile = [[T::default(); TILE]; TILE];
    for (column, tile) in tile.iter_mut().enumerate() {
        tile.copy_from_slice(&from[column * stride..][..TILE]);
    }
    for (row, out) in out.chunks_exact_mut(columns).enumerate() {
        for (out, column) in out[first..first + TILE].iter_mut().zip(&tile) {
            *out = column[row];
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
    fn copy_rows<T: Copy + Default>(&self, first: usize, out: &mut [T], values: &[T]) {
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
    fn copy_matrix<T: Copy + Default>(&self, out: &mut [T], values: &[T]) {
        let ((_, row_stride), (columns, stride)) = (self.rows, self.columns);
        if stride == 1 {
            for (row, out) in out.chunks_exact_mut(columns).enumerate() {
                out.copy_from_slice(&values[row * row_stride..][..columns]);
            }
            return;
        }
        for (tile, out) in out.chunks_mut(TILE * columns).enumerate() {
            let from = &values[tile * TILE * row_stride..];
            for first in (0..columns).step_by(TILE) {
                let last = (first + TILE).min(columns);
                if row_stride == 1 && last - first == TILE && out.len() == TILE * columns {
                    transpose(&from[first * stride..], stride, out, columns, first);
                    continue;
                }
                for (row, out) in out.chunks_exact_mut(columns).enumerate() {
                    let from = &from[row * row_stride..];
                    for (out, column) in out[first..last].iter_mut().zip(first..last) {
                        *out = from[column * stride];
                    }
                }
            }
        }
    }
}
