//! Keys or values of an image whose tokens are columns, which a product with rows of queries reads as they are.
//!
//! `gemm` would make columns of them again for each block of queries, and number by number.

use super::{HeadLayout, Heads, Problem};
use crate::contiguous::cpu::transpose;
use crate::cpu::buffer::par_build;
use crate::cpu::gemm::Matrix;
use rayon::prelude::*;

/// Columns are zeros up to a multiple of it: whole registers on every CPU.
const LANES: usize = 16;

/// The heads of an image, `[heads, dim, width]`.
pub(super) struct Columns {
    values: Vec<f32>,
    dim: usize,
    width: usize,
}

impl Columns {
    /// A head: `[dim, width]`.
    pub(super) fn head(&self, head: usize) -> Matrix<'_> {
        let size = self.dim * self.width;
        Matrix::new(
            &self.values[head * size..][..size],
            [self.dim, self.width],
            self.width,
        )
    }
}

impl<'a> Problem<'a> {
    /// The distance between rows of scores: one for each key, and those of columns that are zeros.
    pub(super) fn width(&self) -> usize {
        self.keys.next_multiple_of(LANES)
    }

    /// Keys or values as columns.
    pub(super) fn columns(&self, tokens: Heads<'a>, image: usize) -> Columns {
        let (HeadLayout { dim, .. }, width) = (tokens.layout, self.width());
        let size = dim * width;
        let heads = (0..self.heads).into_par_iter();
        let values = par_build(self.heads * size, size, heads, |out: &mut [f32], head| {
            let from = self.head(tokens, image, head, self.keys);
            transpose(out, width, from.values(), from.shape(), from.strides()[0]);
        });
        Columns { values, dim, width }
    }
}
