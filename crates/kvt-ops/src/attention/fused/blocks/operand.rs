//! The types of the numbers that attention multiplies.

use rayon::prelude::*;

use super::backward::{Backward, HeadBlock, Target};
use super::packed::{Packed, times_once};
use super::rows::softmax;
use super::sparse::Kept;
use super::{Buffers, Problem, sparse};
use crate::cpu::bf16::Number;
use crate::cpu::buffer::par_build;
use crate::cpu::gemm::{Matrix, Write};
use crate::cpu::panels::Kernel;
use crate::cpu::softmax_row::scale;

/// What is computed of an image.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::attention) enum Pass {
    Forward,
    Backward,
}

/// By which tokens [`Operand::with_all`] multiplies.
#[derive(Clone, Copy)]
pub(in crate::attention) enum Side {
    Keys,
    /// In the [backward pass](Pass::Backward).
    Values,
}

/// A head of an image.
pub(in crate::attention) struct Place<'a, T: Operand> {
    /// The keys and values of the image.
    pub(super) packed: &'a T::Packed,
    pub(super) image: usize,
    pub(super) head: usize,
}

// Derived, they would ask for a `Packed` that can be copied.
impl<T: Operand> Clone for Place<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Operand> Copy for Place<'_, T> {}

/// Numbers of queries, keys and values, with the products of a block of queries. Scores, weights and sums are f32.
pub(in crate::attention) trait Operand: Number {
    /// Whether keys that were dropped are skipped where [few are kept](Problem::is_sparse).
    const SKIPS: bool;

    /// Proof that the CPU has the instructions of the products, if not every CPU has them.
    type Means: Copy + Sync;

    /// Keys and values of an image in the order in which products read them.
    type Packed: Sync;

    /// Memory that a thread reuses from block to block.
    type Scratch: Default + Send;

    /// Rows that a product computes at a time: fewer cost more, each.
    fn height(means: Self::Means) -> usize;

    fn pack(problem: &Problem<'_, Self>, image: usize, pass: Pass) -> Self::Packed;

    /// `factor * rows * k^T`, or `v^T`, of all keys; the rows of the output start some distance apart.
    fn with_all(
        problem: &Problem<'_, Self>,
        out: (&mut [f32], usize),
        factor: f32,
        rows: Matrix<'_, Self>,
        place: Place<'_, Self>,
        side: Side,
        scratch: &mut Self::Scratch,
    );

    /// The output of a head of a block from its scores, which are in the buffers.
    fn attend(
        problem: &Problem<'_, Self>,
        place: Place<'_, Self>,
        queries: usize,
        saved: &mut [f32],
        out: &mut [Self],
        buffers: &mut Buffers<Self::Scratch>,
    );

    /// The gradients of a head of a block: those of the queries replace what is in the target, those of keys and values are added to it,
    /// or replace it.
    fn add_gradients(
        backward: &Backward<'_, Self>,
        block: HeadBlock<'_, Self>,
        write: Write,
        target: &mut Target<'_>,
        buffers: &mut Buffers<Self::Scratch>,
    );

    /// `len` gradients, of which `fill` writes a part in f32, in place of zeros.
    fn gradients(
        len: usize,
        part: usize,
        images: impl IndexedParallelIterator<Item = usize>,
        fill: impl Fn(&mut [f32], usize) + Sync + Send,
    ) -> Vec<Self>;
}

impl Operand for f32 {
    const SKIPS: bool = true;

    /// The kernel of products with packed factors, if it suits.
    type Means = Option<Kernel>;

    /// The heads.
    type Packed = Vec<Packed>;

    type Scratch = Kept;

    fn height(kernel: Option<Kernel>) -> usize {
        kernel.map_or(1, Kernel::usual_height)
    }

    fn pack(problem: &Problem<'_>, image: usize, pass: Pass) -> Vec<Packed> {
        problem.packed(image, pass)
    }

    fn with_all(
        _: &Problem<'_>,
        out: (&mut [f32], usize),
        factor: f32,
        rows: Matrix<'_>,
        place: Place<'_, f32>,
        side: Side,
        _: &mut Kept,
    ) {
        place.packed[place.head].with_all(out, factor, rows, side);
    }

    fn attend(
        problem: &Problem<'_>,
        Place {
            packed,
            image,
            head,
        }: Place<'_, f32>,
        queries: usize,
        saved: &mut [f32],
        out: &mut [f32],
        buffers: &mut Buffers<Kept>,
    ) {
        let (rows, v) = (problem.rows(), problem.v(image, head));
        let (kept, selection) = (&mut buffers.scratch, &mut buffers.selection);
        let scores = &mut buffers.scores[..queries * rows.width()];
        if rows.is_sparse {
            sparse::attend(problem, [image, head], scores, saved, out, kept, selection);
            return;
        }
        softmax(rows, head, scores, saved, selection);
        let weights = Matrix::new(scores, [queries, problem.keys], rows.width());
        let (dim, stride) = (v.shape()[1], problem.heads * v.shape()[1]);
        packed[head].times_tokens((&mut *out, stride), 1.0, weights, v);
        // Scaling the output takes `dim` multiplications per query; scaling the weights would take one per key.
        for ((state, _), out) in rows.records(saved, head).zip(out.chunks_mut(stride)) {
            scale(&mut out[..dim], state.scale);
        }
    }

    fn add_gradients(
        backward: &Backward<'_, f32>,
        block: HeadBlock<'_, f32>,
        write: Write,
        target: &mut Target<'_>,
        buffers: &mut Buffers<Kept>,
    ) {
        let problem = backward.problem;
        let HeadBlock {
            head,
            start,
            inputs: [q, k, _],
            d_out,
            ..
        } = block;
        if problem.is_sparse() {
            if write == Write::Replace {
                target.clear(&block);
            }
            sparse::add_gradients(problem, block, target, &mut buffers.scratch);
            return;
        }
        backward.of_scores(block, target, buffers);
        let (shape, width) = ([q.shape()[0], problem.keys], problem.rows().width());
        let weights = Matrix::new(&buffers.scores, shape, width);
        let d_scores = Matrix::new(&buffers.d_scores, shape, width);
        let [(_, dq_stride), (dk, dk_stride), (dv, dv_stride)] = target.places(head);
        let (kernel, scale) = (problem.means, problem.scale);
        let dq = (target.queries(head, start), dq_stride);
        backward.packed[head].times_tokens(dq, scale, d_scores, k);
        let dk = (&mut target.out[dk..], dk_stride);
        times_once(kernel, dk, write, scale, d_scores.t(), q);
        let dv = (&mut target.out[dv..], dv_stride);
        times_once(kernel, dv, write, 1.0, weights.t(), d_out);
    }

    fn gradients(
        len: usize,
        part: usize,
        images: impl IndexedParallelIterator<Item = usize>,
        fill: impl Fn(&mut [f32], usize) + Sync + Send,
    ) -> Vec<f32> {
        par_build(len, part, images, fill)
    }
}
