//! Keys and values of an image in the order in which products of a block of queries read them.
//!
//! `gemm` would make columns of tokens again for each block, and number by number.

use rayon::prelude::*;

use super::operand::{Pass, Side};
use super::{Problem, QUERIES};
use crate::contiguous::cpu::transpose;
use crate::cpu::gemm::{Matrix, Write, multiply};
use crate::cpu::panels::{FEW, Kernel, Panels};
use crate::cpu::small::PRODUCTS;

/// A head.
pub(in crate::attention) struct Packed {
    /// The tokens of each [side](Side) as columns, where they are needed.
    columns: [Option<Columns>; 2],
    /// Values in the forward pass, and keys in the backward pass, if there is a kernel and no keys are skipped.
    rows: Option<Panels>,
}

/// Tokens as columns.
enum Columns {
    Panels(Panels),
    /// `[dim, width]`, with zeros where a row of scores has no key.
    Plain(Vec<f32>, [usize; 2]),
}

impl Columns {
    fn new(kernel: Option<Kernel>, tokens: Matrix<'_>, width: usize) -> Self {
        if let Some(kernel) = kernel {
            return Self::Panels(Panels::on_this_thread(kernel, tokens.t()));
        }
        let [_, dim] = tokens.shape();
        let mut values = vec![0.0; dim * width];
        let stride = tokens.strides()[0];
        transpose(&mut values, width, tokens.values(), tokens.shape(), stride);
        Self::Plain(values, [dim, width])
    }
}

impl Packed {
    /// `factor * rows * k^T`, or `v^T`, of all keys.
    pub(super) fn with_all(
        &self,
        (out, stride): (&mut [f32], usize),
        factor: f32,
        rows: Matrix<'_>,
        side: Side,
    ) {
        match &self.columns[side as usize] {
            Some(Columns::Panels(panels)) => {
                panels.multiply((out, stride), Write::Replace, factor, rows);
            }
            Some(Columns::Plain(values, shape)) => {
                let columns = Matrix::new(values, *shape, shape[1]);
                multiply(out, stride, Write::Replace, factor, rows, columns);
            }
            None => unreachable!("a pass that needs no columns of values multiplies by none"),
        }
    }

    /// `factor * weights * v` in the forward pass, `factor * weights * k` in the backward pass; the matrix is that `v` or `k`.
    pub(super) fn times_tokens(
        &self,
        out: (&mut [f32], usize),
        factor: f32,
        weights: Matrix<'_>,
        tokens: Matrix<'_>,
    ) {
        times(
            self.rows.as_ref(),
            out,
            Write::Replace,
            factor,
            weights,
            tokens,
        );
    }
}

/// A product with a matrix, which may be packed.
fn times(
    packed: Option<&Panels>,
    (out, stride): (&mut [f32], usize),
    write: Write,
    factor: f32,
    left: Matrix<'_>,
    right: Matrix<'_>,
) {
    match packed {
        Some(panels) => panels.multiply((out, stride), write, factor, left),
        None => multiply(out, stride, write, factor, left, right),
    }
}

/// A product with a matrix that is used once.
pub(super) fn times_once(
    kernel: Option<Kernel>,
    out: (&mut [f32], usize),
    write: Write,
    factor: f32,
    left: Matrix<'_>,
    right: Matrix<'_>,
) {
    let kernel = kernel.filter(|_| left.shape()[0] >= FEW);
    let panels = kernel.map(|kernel| Panels::on_this_thread(kernel, right));
    times(panels.as_ref(), out, write, factor, left, right);
}

/// The kernel for attention of so many queries and keys, with channels of a key and of a value. It depends only on the CPU and the sizes.
pub(in crate::attention) fn kernel(
    queries: usize,
    keys: usize,
    [dim, value_dim]: [usize; 2],
) -> Option<Kernel> {
    let [_, block] = QUERIES;
    let suits = queries >= FEW && queries.min(block) * keys * dim.max(value_dim) > PRODUCTS;
    Kernel::detect().filter(|_| suits)
}

impl Problem<'_> {
    /// The heads of an image; nothing if the gradients of most keys are skipped.
    pub(super) fn packed(&self, image: usize, pass: Pass) -> Vec<Packed> {
        let skips = self.is_sparse();
        let heads = match pass {
            Pass::Backward if skips => 0,
            _ => self.heads,
        };
        let width = self.rows().width();
        let columns = |tokens| Some(Columns::new(self.means, tokens, width));
        let heads = (0..heads).into_par_iter().map(|head| {
            let (k, v) = (self.k(image, head), self.v(image, head));
            let (of_values, tokens) = match pass {
                Pass::Forward => (None, v),
                Pass::Backward => (columns(v), k),
            };
            let kernel = self.means.filter(|_| !skips);
            Packed {
                columns: [columns(k), of_values],
                rows: kernel.map(|kernel| Panels::on_this_thread(kernel, tokens)),
            }
        });
        heads.collect()
    }
}

#[cfg(test)]
mod tests;
