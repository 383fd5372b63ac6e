//! Products of bf16 numbers with the CPU's instructions for them. Weights and the gradients of scores are rounded to bf16 for a product.

use burn::tensor::bf16;
use rayon::prelude::*;

use super::backward::{Backward, HeadBlock, Target};
use super::operand::{Operand, Pass, Place, Side};
use super::rows::softmax;
use super::{Buffers, Problem};
use crate::cpu::bf16::{self as products, Kernel, Number, Right};
use crate::cpu::buffer::{grown, par_write_with};
use crate::cpu::gemm::{Matrix, Write};
use crate::cpu::round::{copy, copy_new};
use crate::cpu::softmax_row::scale;
use crate::cpu::wide::wide;

/// Fewer keys or channels than this fill too little of a tile.
const LEAST: usize = 16;

/// If at most one key of so many is kept, it is faster to skip the others in f32: at one of sixteen a training step of 3,137 tokens takes 0.78
/// of the time, at one of eight 1.15.
const SHARE: usize = 10;

/// Numbers for the products of a block.
#[derive(Default)]
pub(in crate::attention) struct Scratch {
    weights: Vec<bf16>,
    d_scores: Vec<bf16>,
    out: Vec<f32>,
    /// Rows of the block as the columns of a product.
    right: Right,
    left: products::Scratch,
}

/// Keys and values of a head, as the right factors of products.
pub(in crate::attention) struct Packed {
    k_columns: Right,
    /// Empty in the forward pass.
    v_columns: Right,
    /// Values in the forward pass, and keys in the backward pass.
    rows: Right,
}

impl Problem<'_, bf16> {
    /// Whether the instructions are of use. It depends only on the shapes and the number of kept keys.
    pub(in crate::attention) fn is_suited(&self) -> bool {
        let channels = self.k.layout.dim.min(self.v.layout.dim);
        channels.min(self.keys) >= LEAST && self.kept.saturating_mul(SHARE) > self.keys
    }
}

impl Operand for bf16 {
    const SKIPS: bool = false;

    type Means = Kernel;

    type Packed = Vec<Packed>;

    type Scratch = Scratch;

    fn height(kernel: Kernel) -> usize {
        kernel.height()
    }

    fn pack(problem: &Problem<'_, bf16>, image: usize, pass: Pass) -> Vec<Packed> {
        let packed = |factor| {
            let mut right = Right::default();
            right.fill(problem.means, factor);
            right
        };
        let heads = (0..problem.heads).into_par_iter();
        let heads = heads.map(|head| {
            let (k, v) = (problem.k(image, head), problem.v(image, head));
            let (v_columns, rows) = match pass {
                Pass::Forward => (Right::default(), v),
                Pass::Backward => (packed(v.t()), k),
            };
            Packed {
                k_columns: packed(k.t()),
                v_columns,
                rows: packed(rows),
            }
        });
        heads.collect()
    }

    fn with_all(
        problem: &Problem<'_, bf16>,
        out: (&mut [f32], usize),
        factor: f32,
        rows: Matrix<'_, bf16>,
        place: Place<'_, bf16>,
        side: Side,
        scratch: &mut Scratch,
    ) {
        let packed = &place.packed[place.head];
        let columns = match side {
            Side::Keys => &packed.k_columns,
            Side::Values => &packed.v_columns,
        };
        let (kernel, left) = (problem.means, &mut scratch.left);
        products::multiply(kernel, out, Write::Replace, factor, rows, columns, left);
    }

    fn attend(
        problem: &Problem<'_, bf16>,
        place: Place<'_, bf16>,
        queries: usize,
        saved: &mut [f32],
        out: &mut [bf16],
        buffers: &mut Buffers<Scratch>,
    ) {
        let (rows, dim) = (problem.rows(), problem.v.layout.dim);
        let scores = &mut buffers.scores[..queries * rows.width()];
        softmax(rows, place.head, scores, saved, &mut buffers.selection);
        let scratch = &mut buffers.scratch;
        let weights = rounded(&mut scratch.weights, scores, [problem.keys, rows.width()]);
        let product = grown(&mut scratch.out, queries * dim);
        let v = &place.packed[place.head].rows;
        let (kernel, left) = (problem.means, &mut scratch.left);
        let replace = Write::Replace;
        products::multiply(kernel, (product, dim), replace, 1.0, weights, v, left);
        let records = rows.records(saved, place.head);
        let out = out.chunks_mut(problem.heads * dim);
        for ((product, (state, _)), out) in product.chunks_mut(dim).zip(records).zip(out) {
            scale(product, state.scale);
            copy(product, &mut out[..dim]);
        }
    }

    fn add_gradients(
        backward: &Backward<'_, bf16>,
        block: HeadBlock<'_, bf16>,
        write: Write,
        target: &mut Target<'_>,
        buffers: &mut Buffers<Scratch>,
    ) {
        let problem = backward.problem;
        let HeadBlock {
            head,
            start,
            inputs: [q, ..],
            d_out,
            ..
        } = block;
        let shape = [problem.keys, problem.rows().width()];
        backward.of_scores(block, target, buffers);
        let size = q.shape()[0] * shape[1];
        let Scratch {
            weights,
            d_scores,
            right,
            left,
            ..
        } = &mut buffers.scratch;
        let weights = rounded(weights, &buffers.scores[..size], shape);
        let d_scores = rounded(d_scores, &buffers.d_scores[..size], shape);
        let [(_, dq_stride), (dk, dk_stride), (dv, dv_stride)] = target.places(head);
        let (kernel, factor) = (problem.means, problem.scale);
        let dq = (target.queries(head, start), dq_stride);
        let k = &backward.packed[head].rows;
        products::multiply(kernel, dq, Write::Replace, factor, d_scores, k, left);
        let dk = (&mut target.out[dk..], dk_stride);
        right.fill(kernel, q);
        let of_keys = d_scores.t().rows(0..problem.keys);
        products::multiply(kernel, dk, write, factor, of_keys, right, left);
        let dv = (&mut target.out[dv..], dv_stride);
        right.fill(kernel, d_out);
        let of_keys = weights.t().rows(0..problem.keys);
        products::multiply(kernel, dv, write, 1.0, of_keys, right, left);
    }

    fn gradients(
        len: usize,
        part: usize,
        images: impl IndexedParallelIterator<Item = usize>,
        fill: impl Fn(&mut [f32], usize) + Sync + Send,
    ) -> Vec<bf16> {
        let sums = || vec![0.0; part];
        par_write_with(len, part, images, sums, |sums, out, image| {
            let sums = &mut sums[..out.len()];
            sums.fill(0.0);
            fill(sums, image);
            copy_new(sums, out)
        })
    }
}

/// Rows of `[keys, width]`, rounded, with a zero after the last number where it has no second one to make a pair.
fn rounded<'a>(
    buffer: &'a mut Vec<bf16>,
    rows: &[f32],
    [keys, width]: [usize; 2],
) -> Matrix<'a, bf16> {
    let buffer = grown(buffer, rows.len());
    round_rows(buffer, rows, [keys, width]);
    let shape = [rows.len() / width, keys.next_multiple_of(2)];
    Matrix::new(buffer, shape, width)
}

wide! {
    /// Rounds the first `keys` numbers of rows of `width`, and sets the others to zero.
    fn round_rows<'a>(to: &'a mut [bf16], rows: &'a [f32], shape: [usize; 2]) {
        let [keys, width] = shape;
        for (to, row) in to.chunks_exact_mut(width).zip(rows.chunks_exact(width)) {
            let (to, rest) = to.split_at_mut(keys);
            for (to, x) in to.iter_mut().zip(row) {
                *to = bf16::rounded(*x);
            }
            rest.fill(bf16::ZERO);
        }
    }
}

#[cfg(test)]
mod tests;
