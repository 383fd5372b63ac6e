//! Keys or values of an image whose tokens are columns, which a product with rows of queries reads as they are.
//!
//! `gemm` would make columns of them again for each block of queries, and number by number.

use super::{HeadLayout, Heads, Problem};
use crate::contiguous::cpu::transpose;
use crate::cpu::buffer::par_build;
use crate::cpu::gemm::Matrix;
use rayon::prelude::*;

/// The heads of an image, `[heads, dim, width]`.
pub(in crate::attention) struct Columns {
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
    /// Keys or values as columns, with zeros where a row of scores has no key.
    pub(super) fn columns(&self, tokens: Heads<'a>, image: usize) -> Columns {
        let (HeadLayout { dim, .. }, width) = (tokens.layout, self.rows().width());
        let size = dim * width;
        let heads = (0..self.heads).into_par_iter();
        let values = par_build(self.heads * size, size, heads, |out: &mut [f32], head| {
            let from = self.head(tokens, image, head, self.keys);
            transpose(out, width, from.values(), from.shape(), from.strides()[0]);
        });
        Columns { values, dim, width }
    }
}
