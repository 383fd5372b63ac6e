//! The gradients of one image, in blocks of queries.

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::sparse::Gradients;
use super::{Buffers, HeadLayout, Heads, Problem, grown};
use crate::cpu::gemm::{Matrix, Write, multiply};
use crate::cpu::softmax_row::{RowState, softmax_gradient, softmax_row_again};

/// The gradients of one image.
pub(super) struct Backward<'a> {
    pub(super) problem: &'a Problem<'a>,
    pub(super) image: usize,
    /// Queries per block.
    pub(super) block: usize,
    pub(super) d_out: Heads<'a>,
    /// The records of all rows.
    pub(super) saved: &'a [f32],
}

/// The destination of the gradients of an image.
pub(super) struct Target<'a> {
    /// The gradients of q, k and v.
    pub(super) out: &'a mut [f32],
    /// The layouts of the three in `out`.
    pub(super) layouts: [HeadLayout; 3],
    /// The gradient of the bias, `[query or 1, key or 1]`, to which the image adds; with its number of keys.
    pub(super) bias: Option<(&'a mut [f32], usize)>,
}

impl Target<'_> {
    fn reborrow(&mut self) -> Target<'_> {
        let bias = self.bias.as_mut();
        Target {
            out: &mut *self.out,
            layouts: self.layouts,
            bias: bias.map(|(sum, keys)| (&mut **sum, *keys)),
        }
    }
}

impl Backward<'_> {
    /// Splits the blocks into parts, which run in parallel. A part writes the gradients of its queries, and sums the
    /// gradients of keys and values in a copy. The copies are added in the order of the parts, so that the result does
    /// not depend on the number of threads.
    pub(super) fn in_parts(
        &self,
        out: &mut [f32],
        layouts: [HeadLayout; 3],
        parts: usize,
        blocks: usize,
    ) {
        let [q, k, v] = layouts;
        let (keys, heads) = (self.problem.keys, self.problem.heads);
        let width = heads * (k.dim + v.dim);
        let copied = |offset, dim| HeadLayout {
            offset,
            image_stride: 0,
            head_stride: dim,
            token_stride: width,
            dim,
        };
        let copies = [copied(0, k.dim), copied(heads * k.dim, v.dim)];
        let threads = rayon::current_num_threads().clamp(1, parts);
        // Reused from part to part: memory that one thread allocates and another frees accumulates.
        let mut slots: Vec<(Vec<f32>, Buffers)> = Vec::new();
        slots.resize_with(threads, || (vec![0.0; keys * width], Buffers::default()));
        for wave in (0..parts).step_by(threads) {
            let mut tasks: Vec<Vec<(usize, &mut [f32])>> = Vec::new();
            tasks.resize_with(threads.min(parts - wave), Vec::new);
            let dq_blocks = out[q.offset..].chunks_mut(self.block * q.token_stride);
            for (number, dq_block) in dq_blocks.take(blocks).enumerate() {
                let part = number % parts;
                if (wave..wave + tasks.len()).contains(&part) {
                    tasks[part - wave].push((number, dq_block));
                }
            }
            let count = tasks.len();
            let used = slots.par_iter_mut().zip(tasks);
            used.for_each(|((sum, buffers), task)| {
                let layouts = [q, copies[0], copies[1]];
                // Every part has a first block, which overwrites the sum: there are at least as many blocks as parts.
                for (index, (number, dq_block)) in task.into_iter().enumerate() {
                    let target = Target {
                        out: sum,
                        layouts,
                        bias: None,
                    };
                    let write = Write::replace_if(index == 0);
                    self.block(number, write, Some(dq_block), target, buffers);
                }
            });
            for (sum, _) in &slots[..count] {
                for (layout, copy) in [k, v].iter().zip(&copies) {
                    add(out, layout, sum, copy, keys, heads);
                }
            }
        }
    }

    /// All blocks, one after another.
    pub(super) fn whole(&self, blocks: usize, mut target: Target<'_>, buffers: &mut Buffers) {
        for number in 0..blocks {
            let write = Write::replace_if(number == 0);
            self.block(number, write, None, target.reborrow(), buffers);
        }
    }

    /// The block `number`: adds the gradients of keys and values to the target, or replaces the target, as `write` says. The
    /// gradients of the block's queries are written to the beginning of `dq_out`, or to the target if it is `None`.
    pub(super) fn block(
        &self,
        number: usize,
        write: Write,
        mut dq_out: Option<&mut [f32]>,
        target: Target<'_>,
        buffers: &mut Buffers,
    ) {
        let Target {
            out,
            layouts: [q_layout, k_layout, v_layout],
            mut bias,
        } = target;
        let Problem {
            heads,
            keys,
            queries: query_count,
            scale,
            ..
        } = *self.problem;
        let (image, start) = (self.image, number * self.block);
        let range = start..(start + self.block).min(query_count);
        let rows = range.len();
        let records = heads * self.problem.record();
        let saved = &self.saved[(image * query_count + start) * records..][..rows * records];
        for head in 0..heads {
            let q = self.problem.q(image, head).rows(range.clone());
            let (k, v) = (self.problem.k(image, head), self.problem.v(image, head));
            let d_out = self
                .problem
                .head(self.d_out, image, head, query_count)
                .rows(range.clone());
            let at = |layout: HeadLayout| layout.offset + head * layout.head_stride;
            if self.problem.is_sparse() {
                let places =
                    [q_layout, k_layout, v_layout].map(|layout| (at(layout), layout.token_stride));
                let gradients = Gradients {
                    records: self.problem.records(saved, head),
                    scale,
                    inputs: [q, k, v],
                    d_out,
                    out: &mut *out,
                    places,
                    start,
                    dq_out: dq_out
                        .as_deref_mut()
                        .map(|dq| &mut dq[head * q_layout.head_stride..]),
                    kept: &mut buffers.kept,
                };
                gradients.add(write);
                continue;
            }
            let scores = grown(&mut buffers.scores, rows * keys);
            let d_scores = grown(&mut buffers.d_scores, rows * keys);
            self.problem.score(scores, q, image, head, start);
            multiply(d_scores, keys, Write::Replace, 1.0, d_out, v.t());
            Arch::new().dispatch(Gradient {
                scores,
                d_scores,
                states: self.problem.records(saved, head).map(|(state, _)| state),
                problem: self.problem,
            });
            let place = self.problem.place(image, head);
            self.problem
                .terms
                .clear_hidden(d_scores, keys, place, start);
            if let Some((bias, bias_keys)) = &mut bias {
                add_rows(bias, *bias_keys, d_scores, keys, start);
            }
            let weights = Matrix::new(scores, [rows, keys], keys);
            let d_scores_matrix = Matrix::new(d_scores, [rows, keys], keys);
            let stride = q_layout.token_stride;
            let dq = match &mut dq_out {
                Some(dq_out) => &mut dq_out[head * q_layout.head_stride..],
                None => &mut out[at(q_layout) + start * stride..],
            };
            multiply(dq, stride, Write::Replace, scale, d_scores_matrix, k);
            let (dk, stride) = (&mut out[at(k_layout)..], k_layout.token_stride);
            multiply(dk, stride, write, scale, d_scores_matrix.t(), q);
            let (dv, stride) = (&mut out[at(v_layout)..], v_layout.token_stride);
            multiply(dv, stride, write, 1.0, weights.t(), d_out);
        }
    }
}

/// Adds the gradients of scores, for the queries from `start` on, to the gradient of a bias, which has one row for all
/// queries or one for each, and one number for all keys or one for each.
fn add_rows(bias: &mut [f32], bias_keys: usize, d_scores: &[f32], keys: usize, start: usize) {
    for (number, row) in d_scores.chunks_exact(keys).enumerate() {
        let first = if bias.len() > bias_keys {
            (start + number) * bias_keys
        } else {
            0
        };
        let bias = &mut bias[first..first + bias_keys];
        if let [sum] = bias {
            *sum += row.iter().sum::<f32>();
        } else {
            for (sum, x) in bias.iter_mut().zip(row) {
                *sum += x;
            }
        }
    }
}

/// Adds the heads of one tensor to the heads of another.
fn add(
    to: &mut [f32],
    to_layout: &HeadLayout,
    from: &[f32],
    from_layout: &HeadLayout,
    tokens: usize,
    heads: usize,
) {
    let start = |layout: &HeadLayout, token: usize, head: usize| {
        layout.offset + token * layout.token_stride + head * layout.head_stride
    };
    for token in 0..tokens {
        for head in 0..heads {
            let to = &mut to[start(to_layout, token, head)..][..to_layout.dim];
            let from = &from[start(from_layout, token, head)..][..to_layout.dim];
            for (to, from) in to.iter_mut().zip(from) {
                *to += from;
            }
        }
    }
}

/// Turns the scores of a block into probabilities, and the gradients of the probabilities into gradients of the
/// scores.
struct Gradient<'a, I> {
    scores: &'a mut [f32],
    d_scores: &'a mut [f32],
    states: I,
    problem: &'a Problem<'a>,
}

impl<'a, I: Iterator<Item = &'a RowState>> WithSimd for Gradient<'_, I> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let keys = self.problem.keys;
        let scores = self.scores.chunks_exact_mut(keys);
        let rows = scores.zip(self.d_scores.chunks_exact_mut(keys));
        for ((row, d_row), state) in rows.zip(self.states) {
            softmax_row_again(simd, row, state);
            softmax_gradient(simd, d_row, row);
        }
    }
}
