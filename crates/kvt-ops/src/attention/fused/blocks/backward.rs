//! The gradients of one image, in blocks of queries.

use rayon::prelude::*;

use super::operand::{Pass, Place, Side};
use super::rows::into_gradients;
use super::terms::Fill;
use super::{Buffers, HeadLayout, Heads, Operand, Problem};
use crate::cpu::buffer::grown;
use crate::cpu::gemm::{Matrix, Write};

/// What the gradients of one image are computed from.
pub(in crate::attention) struct Backward<'a, T: Operand> {
    pub(super) problem: &'a Problem<'a, T>,
    pub(super) image: usize,
    pub(super) d_out: Heads<'a, T>,
    /// The records of all rows.
    pub(super) saved: &'a [f32],
    pub(super) packed: T::Packed,
}

/// Where the gradients go.
pub(in crate::attention) struct Target<'a> {
    /// The gradients of q, k and v.
    pub(super) out: &'a mut [f32],
    /// The layouts of the three in `out`.
    pub(super) layouts: [HeadLayout; 3],
    /// The gradients of the queries of one block, if they have a place of their own: then `out` has none.
    pub(super) queries: Option<&'a mut [f32]>,
    /// The gradient of the bias, `[heads, query or 1, key or 1]`, to which the image adds; with its number of keys.
    pub(super) bias: Option<(&'a mut [f32], usize)>,
}

impl Target<'_> {
    /// Where the gradients of q, k and v of a head start in `out`, and the strides from token to token.
    pub(super) fn places(&self, head: usize) -> [(usize, usize); 3] {
        self.layouts
            .map(|layout| (layout.start(0, head), layout.token_stride))
    }

    /// The gradients of a head's queries, those of the block whose first query is `start`.
    pub(super) fn queries(&mut self, head: usize, start: usize) -> &mut [f32] {
        let [layout, ..] = self.layouts;
        match &mut self.queries {
            Some(queries) => &mut queries[head * layout.head_stride..],
            None => &mut self.out[layout.start(0, head) + start * layout.token_stride..],
        }
    }

    /// Sets the gradients of all keys and values of a head to zero.
    pub(super) fn clear<T: Operand>(&mut self, block: &HeadBlock<'_, T>) {
        let shapes = block.inputs.map(Matrix::shape);
        let places = self.places(block.head);
        for ([keys, dim], (start, stride)) in shapes.into_iter().zip(places).skip(1) {
            for key in 0..keys {
                self.out[start + key * stride..][..dim].fill(0.0);
            }
        }
    }
}

/// The queries of a block in one head.
#[derive(Clone, Copy)]
pub(in crate::attention) struct HeadBlock<'a, T = f32> {
    pub(super) head: usize,
    /// The number of the first query.
    pub(super) start: usize,
    /// The queries of the block, and all keys and values.
    pub(super) inputs: [Matrix<'a, T>; 3],
    pub(super) d_out: Matrix<'a, T>,
    /// The records of the block's rows, of all heads.
    pub(super) saved: &'a [f32],
}

impl<'a, T: Operand> Backward<'a, T> {
    pub(super) fn new(
        problem: &'a Problem<'a, T>,
        image: usize,
        d_out: Heads<'a, T>,
        saved: &'a [f32],
    ) -> Self {
        Self {
            problem,
            image,
            d_out,
            saved,
            packed: T::pack(problem, image, Pass::Backward),
        }
    }

    /// Divides the blocks among parts, which run in parallel, as many at a time as there are threads: block `i` is in part
    /// `i % parts`. Each part writes the gradients of its own queries to `out`. Every key and value has gradients from all
    /// parts, so that each part sums them in a copy. The copies are added in the order of the parts: the result does not depend on
    /// the number of threads.
    pub(super) fn in_parts(&self, out: &mut [f32], layouts: [HeadLayout; 3], parts: usize) {
        let [q, k, v] = layouts;
        let Problem { keys, heads, .. } = *self.problem;
        let (block, blocks) = (self.problem.block(), self.problem.blocks());
        // Those of a head follow each other: they are read and written from the first to the last, block by block.
        let width = k.dim + v.dim;
        let copied = |offset, dim| HeadLayout {
            offset,
            image_stride: 0,
            head_stride: keys * width,
            token_stride: width,
            dim,
        };
        let copies = [copied(0, k.dim), copied(k.dim, v.dim)];
        let threads = rayon::current_num_threads().clamp(1, parts);
        // A copy and the buffers of a part. Reused from part to part: memory that one thread allocates and another frees
        // accumulates.
        let mut slots: Vec<(Vec<f32>, Buffers<T::Scratch>)> = Vec::new();
        slots.resize_with(threads, || {
            (vec![0.0; heads * keys * width], Buffers::default())
        });
        for first in (0..parts).step_by(threads) {
            // The blocks of the parts from `first` on, with the places of their queries.
            let mut tasks: Vec<Vec<(usize, &mut [f32])>> = Vec::new();
            tasks.resize_with(threads.min(parts - first), Vec::new);
            let of_blocks = out[q.offset..].chunks_mut(block * q.token_stride);
            for (number, queries) in of_blocks.take(blocks).enumerate() {
                let part = number % parts;
                if (first..first + tasks.len()).contains(&part) {
                    tasks[part - first].push((number, queries));
                }
            }
            let count = tasks.len();
            let used = slots.par_iter_mut().zip(tasks);
            used.for_each(|((sum, buffers), task)| {
                // Every part has a first block, which overwrites the sum: there are at least as many blocks as parts.
                for (index, (number, queries)) in task.into_iter().enumerate() {
                    let mut target = Target {
                        out: sum,
                        layouts: [q, copies[0], copies[1]],
                        queries: Some(queries),
                        bias: None,
                    };
                    let write = Write::replace_if(index == 0);
                    self.block(number, write, &mut target, buffers);
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
    pub(super) fn whole(&self, mut target: Target<'_>, buffers: &mut Buffers<T::Scratch>) {
        for number in 0..self.problem.blocks() {
            let write = Write::replace_if(number == 0);
            self.block(number, write, &mut target, buffers);
        }
    }

    /// The block `number`, head by head. The gradients of its queries replace what is in the target; those of keys and values are
    /// added to it, or replace it, as `write` says.
    fn block(
        &self,
        number: usize,
        write: Write,
        target: &mut Target<'_>,
        buffers: &mut Buffers<T::Scratch>,
    ) {
        let (problem, image) = (self.problem, self.image);
        let start = number * problem.block();
        let range = start..(start + problem.block()).min(problem.queries);
        let records = problem.heads * problem.record();
        let saved = &self.saved[(image * problem.queries + start) * records..];
        for head in 0..problem.heads {
            let d_out = problem.head(self.d_out, image, head, problem.queries);
            let block = HeadBlock {
                head,
                start,
                inputs: [
                    problem.q(image, head).rows(range.clone()),
                    problem.k(image, head),
                    problem.v(image, head),
                ],
                d_out: d_out.rows(range.clone()),
                saved: &saved[..range.len() * records],
            };
            T::add_gradients(self, block, write, target, buffers);
        }
    }

    /// Leaves the probabilities of a block in one head, and the gradients of its scores, in the buffers, in rows of
    /// [`Rows::width`](super::rows::Rows::width). Adds the gradients of the scores to that of the bias.
    pub(super) fn of_scores(
        &self,
        block: HeadBlock<'_, T>,
        target: &mut Target<'_>,
        buffers: &mut Buffers<T::Scratch>,
    ) {
        let HeadBlock {
            head,
            start,
            inputs: [q, ..],
            d_out,
            saved,
        } = block;
        let (problem, rows) = (self.problem, self.problem.rows());
        let place = Place {
            packed: &self.packed,
            image: self.image,
            head,
        };
        problem.score(q, place, start, buffers);
        let Buffers {
            scores,
            d_scores,
            scratch,
            ..
        } = buffers;
        let size = d_out.shape()[0] * rows.width();
        let (scores, d_scores) = (&mut scores[..size], grown(d_scores, size));
        let out = (&mut *d_scores, rows.width());
        T::with_all(problem, out, 1.0, d_out, place, Side::Values, scratch);
        into_gradients(rows, head, scores, d_scores, saved);
        let place = problem.place(self.image, head);
        let shape = [problem.keys, rows.width()];
        let terms = &problem.terms;
        terms.apply(d_scores, shape, place, start, Fill::Gradient);
        if let Some((bias, bias_keys)) = &mut target.bias {
            let matrix = bias.len() / problem.heads;
            let bias = &mut bias[head * matrix..][..matrix];
            add_rows(bias, *bias_keys, d_scores, shape, start);
        }
    }
}

/// Adds the gradients of scores, for the queries from `start` on, to the gradient of a bias, which has one row for all
/// queries or one for each, and one number for all keys or one for each.
fn add_rows(
    bias: &mut [f32],
    bias_keys: usize,
    d_scores: &[f32],
    [keys, width]: [usize; 2],
    start: usize,
) {
    for (number, row) in d_scores.chunks_exact(width).enumerate() {
        let row = &row[..keys];
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
        layout.start(0, head) + token * layout.token_stride
    };
    for head in 0..heads {
        for token in 0..tokens {
            let to = &mut to[start(to_layout, token, head)..][..to_layout.dim];
            let from = &from[start(from_layout, token, head)..][..to_layout.dim];
            for (to, from) in to.iter_mut().zip(from) {
                *to += from;
            }
        }
    }
}
