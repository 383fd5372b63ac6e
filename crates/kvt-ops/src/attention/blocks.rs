//! k-NN attention on the CPU, block of queries by block of queries: the scores of a block live in a
//! buffer that stays in the cache, and are made again for the gradient. Memory beside inputs and
//! outputs does not grow with queries times keys.

mod backward;

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use crate::buffer::made;
use crate::matrix::{Matrix, Write, multiply};
use crate::rows::{RowState, scale, weigh};

use backward::Backward;

/// Queries of a block, at least and at most: enough for the matrix product to be fast.
const QUERIES: [usize; 2] = [32, 64];

/// Scores of a block that stay in the cache, and make its buffers small beside the tensors.
const SCORES: usize = 26 << 10;

/// Parts that the gradient of one image is split into where there are few images. A constant, so
/// that the sums over the parts do not depend on the number of threads.
const PARTS: usize = 8;

/// Where the heads of one tensor lie: the `dim` channels of token `t` of head `h` of image `b`
/// start at `offset + b * image + h * head + t * token`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) offset: usize,
    pub(super) image: usize,
    pub(super) head: usize,
    pub(super) token: usize,
    pub(super) dim: usize,
}

impl Place {
    fn head<'a>(&self, data: &'a [f32], image: usize, head: usize, tokens: usize) -> Matrix<'a> {
        let start = self.offset + image * self.image + head * self.head;
        Matrix::new(&data[start..], [tokens, self.dim], self.token)
    }
}

/// A tensor of heads.
#[derive(Clone, Copy)]
pub(super) struct Heads<'a> {
    pub(super) data: &'a [f32],
    pub(super) place: Place,
}

/// What is to be computed: `softmax(top_k(scale q k^T)) v`.
#[derive(Clone, Copy)]
pub(super) struct Problem<'a> {
    pub(super) images: usize,
    pub(super) heads: usize,
    pub(super) queries: usize,
    pub(super) keys: usize,
    pub(super) q: Heads<'a>,
    pub(super) k: Heads<'a>,
    pub(super) v: Heads<'a>,
    pub(super) scale: f32,
    /// How many keys a query keeps.
    pub(super) kept: usize,
}

/// Scores of a block and what goes with them, kept by a thread from block to block.
#[derive(Default)]
struct Buffers {
    scores: Vec<f32>,
    grads: Vec<f32>,
    selection: Vec<f32>,
}

impl<'a> Problem<'a> {
    fn q(&self, image: usize, head: usize) -> Matrix<'a> {
        self.q.place.head(self.q.data, image, head, self.queries)
    }

    fn k(&self, image: usize, head: usize) -> Matrix<'a> {
        self.k.place.head(self.k.data, image, head, self.keys)
    }

    fn v(&self, image: usize, head: usize) -> Matrix<'a> {
        self.v.place.head(self.v.data, image, head, self.keys)
    }

    /// Queries per block: blocks of about the same size.
    fn block(&self) -> usize {
        let [least, most] = QUERIES;
        // Rows too long for the cache lose nothing by a larger block.
        let cached = SCORES / self.keys.max(1);
        let wanted = if cached < least {
            most
        } else {
            cached.min(most)
        };
        self.queries.div_ceil(self.queries.div_ceil(wanted).max(1))
    }

    /// The output, `[image, query, head, value_dim]`; fills `states`, `[image, query, head]`.
    pub(super) fn forward(&self, states: &mut [RowState]) -> Vec<f32> {
        let width = self.heads * self.v.place.dim;
        let block = self.block();
        let size = self.queries * width;
        let states = states.par_chunks_mut(self.queries * self.heads).enumerate();
        made(self.images * size, size, states, |out, (image, states)| {
            let out = out.par_chunks_mut(block * width);
            let states = states.par_chunks_mut(block * self.heads);
            out.zip(states).enumerate().for_each_init(
                Buffers::default,
                |buffers, (number, (out, states))| {
                    self.forward_block(image, number * block, out, states, buffers);
                },
            );
        })
    }

    fn forward_block(
        &self,
        image: usize,
        start: usize,
        out: &mut [f32],
        states: &mut [RowState],
        buffers: &mut Buffers,
    ) {
        let dim = self.v.place.dim;
        let width = self.heads * dim;
        let queries = out.len() / width;
        for head in 0..self.heads {
            let q = self.q(image, head).rows(start..start + queries);
            let scores = grown(&mut buffers.scores, queries * self.keys);
            self.score(scores, q, image, head);
            Arch::new().dispatch(Weigh {
                scores,
                states: states.iter_mut().skip(head).step_by(self.heads),
                problem: self,
                selection: &mut buffers.selection,
            });
            let weights = Matrix::new(scores, [queries, self.keys], self.keys);
            let out = &mut out[head * dim..];
            multiply(
                out,
                width,
                Write::Replace,
                1.0,
                weights,
                self.v(image, head),
            );
            // Scaling the output costs dim products per query, scaling the weights one per key.
            for (token, out) in out.chunks_mut(width).enumerate() {
                scale(&mut out[..dim], states[token * self.heads + head].scale);
            }
        }
    }

    fn score(&self, scores: &mut [f32], q: Matrix<'_>, image: usize, head: usize) {
        let k = self.k(image, head).t();
        multiply(scores, self.keys, Write::Replace, self.scale, q, k);
    }

    /// The gradients of q, k and v: `size` values per image, in which they lie as `places` say (their
    /// `image` is not used), queries token by token from the beginning. `grad` is the gradient of the
    /// output.
    pub(super) fn backward(
        &self,
        grad: Heads<'_>,
        states: &[RowState],
        size: usize,
        places: [Place; 3],
    ) -> Vec<f32> {
        let block = self.block();
        let blocks = self.queries.div_ceil(block.max(1));
        let parts = (PARTS / self.images.max(1)).clamp(1, blocks.max(1));
        let images = (0..self.images).into_par_iter();
        made(self.images * size, size, images, |out, image| {
            let backward = Backward {
                problem: self,
                image,
                block,
                grad,
                states,
            };
            if parts > 1 {
                backward.in_parts(out, places, parts, blocks);
                return;
            }
            let mut buffers = Buffers::default();
            for number in 0..blocks {
                let first = number == 0;
                backward.block(number, first, None, out, places, &mut buffers);
            }
        })
    }
}

/// The rows of a block of scores become weights.
struct Weigh<'a, I> {
    scores: &'a mut [f32],
    states: I,
    problem: &'a Problem<'a>,
    selection: &'a mut Vec<f32>,
}

impl<'a, I: Iterator<Item = &'a mut RowState>> WithSimd for Weigh<'_, I> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let rows = self.scores.chunks_exact_mut(self.problem.keys);
        for (row, state) in rows.zip(self.states) {
            *state = weigh(simd, row, self.problem.kept, self.selection);
        }
    }
}

/// The first `len` values of a buffer that only grows; they hold anything.
fn grown(buffer: &mut Vec<f32>, len: usize) -> &mut [f32] {
    if buffer.len() < len {
        buffer.resize(len, 0.0);
    }
    &mut buffer[..len]
}
