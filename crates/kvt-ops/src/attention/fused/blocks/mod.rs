//! k-NN attention on the CPU in blocks of queries: the scores of a block stay in the cache, and are computed
//! again for the gradient. Extra memory does not grow with queries times keys.

mod backward;

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use crate::cpu::buffer::par_build;
use crate::cpu::gemm::{Matrix, Write, multiply};
use crate::cpu::softmax_row::{RowState, scale, softmax_row};

use backward::Backward;

/// Queries of a block, at least and at most: enough for a fast matrix product.
const QUERIES: [usize; 2] = [32, 64];

/// Scores of a block that stay in the cache, in buffers that are small compared with the tensors.
const SCORES: usize = 26 << 10;

/// Parts of the gradient of one image, where there are few images. A constant, so that the sums over the parts
/// do not depend on the number of threads.
const PARTS: usize = 8;

/// The memory layout of a tensor of heads: the `dim` channels of token `t` of head `h` of image `b` start at
/// `offset + b * image + h * head + t * token`.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeadLayout {
    pub(super) offset: usize,
    pub(super) image: usize,
    pub(super) head: usize,
    pub(super) token: usize,
    pub(super) dim: usize,
}

impl HeadLayout {
    fn head<'a>(&self, data: &'a [f32], image: usize, head: usize, tokens: usize) -> Matrix<'a> {
        let start = self.offset + image * self.image + head * self.head;
        Matrix::new(&data[start..], [tokens, self.dim], self.token)
    }
}

/// A tensor of heads.
#[derive(Clone, Copy)]
pub(super) struct Heads<'a> {
    pub(super) data: &'a [f32],
    pub(super) layout: HeadLayout,
}

/// The inputs of `softmax(top_k(scale q k^T)) v`.
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
    /// Keys that a query keeps.
    pub(super) kept: usize,
}

/// Buffers for a block, reused by a thread from block to block.
#[derive(Default)]
struct Buffers {
    scores: Vec<f32>,
    grads: Vec<f32>,
    selection: Vec<f32>,
}

impl<'a> Problem<'a> {
    fn q(&self, image: usize, head: usize) -> Matrix<'a> {
        self.q.layout.head(self.q.data, image, head, self.queries)
    }

    fn k(&self, image: usize, head: usize) -> Matrix<'a> {
        self.k.layout.head(self.k.data, image, head, self.keys)
    }

    fn v(&self, image: usize, head: usize) -> Matrix<'a> {
        self.v.layout.head(self.v.data, image, head, self.keys)
    }

    /// Queries per block, in blocks of about the same size.
    fn block(&self) -> usize {
        let [least, most] = QUERIES;
        // Where rows are too long for the cache anyway, a larger block costs nothing.
        let cached = SCORES / self.keys.max(1);
        let wanted = if cached < least {
            most
        } else {
            cached.min(most)
        };
        self.queries.div_ceil(self.queries.div_ceil(wanted).max(1))
    }

    /// The output, `[image, query, head, value_dim]`. Fills `states`, `[image, query, head]`.
    pub(super) fn forward(&self, states: &mut [RowState]) -> Vec<f32> {
        let width = self.heads * self.v.layout.dim;
        let block = self.block();
        let size = self.queries * width;
        let states = states.par_chunks_mut(self.queries * self.heads).enumerate();
        par_build(self.images * size, size, states, |out, (image, states)| {
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
        let dim = self.v.layout.dim;
        let width = self.heads * dim;
        let queries = out.len() / width;
        for head in 0..self.heads {
            let q = self.q(image, head).rows(start..start + queries);
            let scores = grown(&mut buffers.scores, queries * self.keys);
            self.score(scores, q, image, head);
            Arch::new().dispatch(Softmax {
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
            // Scaling the output takes `dim` products per query, scaling the weights one per key.
            for (token, out) in out.chunks_mut(width).enumerate() {
                scale(&mut out[..dim], states[token * self.heads + head].scale);
            }
        }
    }

    /// Fills in the scores of the queries `q` with all keys of the head.
    fn score(&self, scores: &mut [f32], q: Matrix<'_>, image: usize, head: usize) {
        let k = self.k(image, head).t();
        multiply(scores, self.keys, Write::Replace, self.scale, q, k);
    }

    /// The gradients of q, k and v: `size` values per image, in the `layouts` of the three within an image
    /// (`image` is unused), the queries first and token by token. `grad` is the gradient of the output.
    pub(super) fn backward(
        &self,
        grad: Heads<'_>,
        states: &[RowState],
        size: usize,
        layouts: [HeadLayout; 3],
    ) -> Vec<f32> {
        let block = self.block();
        let blocks = self.queries.div_ceil(block.max(1));
        let parts = (PARTS / self.images.max(1)).clamp(1, blocks.max(1));
        let images = (0..self.images).into_par_iter();
        par_build(self.images * size, size, images, |out, image| {
            let backward = Backward {
                problem: self,
                image,
                block,
                grad,
                states,
            };
            if parts > 1 {
                backward.in_parts(out, layouts, parts, blocks);
                return;
            }
            let mut buffers = Buffers::default();
            for number in 0..blocks {
                let first = number == 0;
                backward.block(number, first, None, out, layouts, &mut buffers);
            }
        })
    }
}

/// [`softmax_row`] of every row of a block.
struct Softmax<'a, I> {
    scores: &'a mut [f32],
    states: I,
    problem: &'a Problem<'a>,
    selection: &'a mut Vec<f32>,
}

impl<'a, I: Iterator<Item = &'a mut RowState>> WithSimd for Softmax<'_, I> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let rows = self.scores.chunks_exact_mut(self.problem.keys);
        for (row, state) in rows.zip(self.states) {
            *state = softmax_row(simd, row, self.problem.kept, self.selection);
        }
    }
}

/// The first `len` values of a buffer that only grows, with stale contents.
fn grown(buffer: &mut Vec<f32>, len: usize) -> &mut [f32] {
    if buffer.len() < len {
        buffer.resize(len, 0.0);
    }
    &mut buffer[..len]
}
