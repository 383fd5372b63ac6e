//! k-NN attention on the CPU in blocks of queries: the scores of a block stay in the cache, and are computed
//! again for the gradient. Extra memory does not grow with queries times keys, except for a bit for each where the keys that
//! were dropped are skipped.

mod backward;
mod bits;
mod columns;
mod sparse;
mod terms;

use rayon::prelude::*;

use crate::cpu::buffer::{grown, par_build};
use crate::cpu::gemm::{Matrix, Write, multiply};
use crate::cpu::softmax_row::{RowState, scale, softmax_row};
use crate::cpu::wide::wide;

use super::AttentionSettings;
use backward::{Backward, Target};
use columns::Columns;
use sparse::Kept;
use terms::{Fill, HIDDEN};
pub(in crate::attention) use terms::{Term, Terms};

/// Minimum and maximum number of queries per block: enough for a fast matrix product.
const QUERIES: [usize; 2] = [32, 64];

/// Numbers per [`RowState`].
const STATE: usize = size_of::<RowState>() / size_of::<f32>();

/// Scores per block: few enough to stay in the cache, in buffers that are small compared with the tensors.
const SCORES: usize = 26 << 10;

/// Parts of the gradient of one image, if there are few images. A constant, so that the sums over the parts do not
/// depend on the number of threads.
const PARTS: usize = 8;

/// The memory layout of a tensor of heads: the `dim` channels of token `t` of head `h` of image `b` start at
/// `offset + b * image_stride + h * head_stride + t * token_stride`.
#[derive(Clone, Copy, Debug)]
pub(in crate::attention) struct HeadLayout {
    pub(in crate::attention) offset: usize,
    pub(in crate::attention) image_stride: usize,
    pub(in crate::attention) head_stride: usize,
    pub(in crate::attention) token_stride: usize,
    pub(in crate::attention) dim: usize,
}

impl HeadLayout {
    /// The first number of a head.
    fn start(&self, image: usize, head: usize) -> usize {
        self.offset + image * self.image_stride + head * self.head_stride
    }

    fn head<'a>(&self, data: &'a [f32], image: usize, head: usize, tokens: usize) -> Matrix<'a> {
        let data = &data[self.start(image, head)..];
        Matrix::new(data, [tokens, self.dim], self.token_stride)
    }
}

/// A tensor of heads.
#[derive(Clone, Copy)]
pub(in crate::attention) struct Heads<'a> {
    pub(in crate::attention) data: &'a [f32],
    pub(in crate::attention) layout: HeadLayout,
}

/// The inputs of `softmax(top_k(scale q k^T)) v`.
#[derive(Clone, Copy)]
pub(in crate::attention) struct Problem<'a> {
    pub(in crate::attention) images: usize,
    pub(in crate::attention) heads: usize,
    /// If each head is treated as an image of one head: the number of heads in an image of the tensors. Otherwise 1.
    pub(in crate::attention) heads_folded_into_images: usize,
    pub(in crate::attention) queries: usize,
    pub(in crate::attention) keys: usize,
    pub(in crate::attention) q: Heads<'a>,
    pub(in crate::attention) k: Heads<'a>,
    pub(in crate::attention) v: Heads<'a>,
    pub(in crate::attention) scale: f32,
    /// Keys kept per query.
    pub(in crate::attention) kept: usize,
    /// Bias and mask.
    pub(in crate::attention) terms: Terms<'a>,
}

/// Buffers for a block, which a thread reuses from block to block.
#[derive(Default)]
struct Buffers {
    scores: Vec<f32>,
    d_scores: Vec<f32>,
    selection: Vec<f32>,
    kept: Kept,
}

impl<'a> Problem<'a> {
    /// Of q, k and v, without bias and mask; `sizes` are images, heads, queries and keys.
    pub(in crate::attention) fn new(
        [q, k, v]: [Heads<'a>; 3],
        sizes: [usize; 4],
        settings: AttentionSettings,
    ) -> Self {
        let [images, heads, queries, keys] = sizes;
        Self {
            images,
            heads,
            heads_folded_into_images: 1,
            queries,
            keys,
            q,
            k,
            v,
            scale: settings.scale as f32,
            kept: settings.kept,
            terms: Terms::default(),
        }
    }

    /// Image and head within the tensors.
    fn place(&self, image: usize, head: usize) -> [usize; 2] {
        [
            image / self.heads_folded_into_images,
            image % self.heads_folded_into_images + head,
        ]
    }

    /// A head of a tensor with `tokens` tokens.
    fn head(&self, heads: Heads<'a>, image: usize, head: usize, tokens: usize) -> Matrix<'a> {
        let [image, head] = self.place(image, head);
        heads.layout.head(heads.data, image, head, tokens)
    }

    fn q(&self, image: usize, head: usize) -> Matrix<'a> {
        self.head(self.q, image, head, self.queries)
    }

    fn k(&self, image: usize, head: usize) -> Matrix<'a> {
        self.head(self.k, image, head, self.keys)
    }

    fn v(&self, image: usize, head: usize) -> Matrix<'a> {
        self.head(self.v, image, head, self.keys)
    }

    /// Queries per block; all blocks have about the same size.
    fn block(&self) -> usize {
        let [least, most] = QUERIES;
        // If rows are too long for the cache anyway, a larger block costs nothing.
        let cached = SCORES / self.keys.max(1);
        let wanted = if cached < least {
            most
        } else {
            cached.min(most)
        };
        self.queries.div_ceil(self.queries.div_ceil(wanted).max(1))
    }

    fn blocks(&self) -> usize {
        self.queries.div_ceil(self.block().max(1))
    }

    /// The output, `[image, query, head, value_dim]`. Fills `saved`, a [record](Self::record) for each
    /// `[image, query, head]`.
    pub(in crate::attention) fn forward(&self, saved: &mut [f32]) -> Vec<f32> {
        let width = self.heads * self.v.layout.dim;
        let block = self.block();
        let size = self.queries * width;
        let (len, records) = (self.images * size, self.heads * self.record());
        let saved = saved
            .par_chunks_mut((self.queries * records).max(1))
            .enumerate();
        par_build(len, size, saved, |out: &mut [f32], (image, saved)| {
            let keys = self.columns(self.k, image);
            let out = out.par_chunks_mut(block * width);
            let saved = saved.par_chunks_mut(block * records);
            out.zip(saved).enumerate().for_each_init(
                Buffers::default,
                |buffers, (number, (out, saved))| {
                    self.forward_block(image, &keys, number * block, out, saved, buffers);
                },
            );
        })
    }

    /// Numbers saved of a row: its [`RowState`], and the keys that it kept if the others are skipped.
    pub(in crate::attention) fn record(&self) -> usize {
        STATE
            + if self.is_sparse() {
                bits::words(self.keys)
            } else {
                0
            }
    }

    /// The records of a head in a block.
    fn records<'b>(
        &self,
        saved: &'b [f32],
        head: usize,
    ) -> impl Iterator<Item = (&'b RowState, &'b [u32])> + use<'b> {
        let records = saved.chunks_exact(self.record());
        records.skip(head).step_by(self.heads).map(|record| {
            let (state, kept) = record.split_at(STATE);
            (
                bytemuck::from_bytes(bytemuck::cast_slice(state)),
                bytemuck::cast_slice(kept),
            )
        })
    }

    /// As [`records`](Self::records).
    fn records_mut<'b>(
        &self,
        saved: &'b mut [f32],
        head: usize,
    ) -> impl Iterator<Item = (&'b mut RowState, &'b mut [u32])> + use<'b> {
        let records = saved.chunks_exact_mut(self.record());
        records.skip(head).step_by(self.heads).map(|record| {
            let (state, kept) = record.split_at_mut(STATE);
            (
                bytemuck::from_bytes_mut(bytemuck::cast_slice_mut(state)),
                bytemuck::cast_slice_mut(kept),
            )
        })
    }

    fn forward_block(
        &self,
        image: usize,
        keys: &Columns,
        start: usize,
        out: &mut [f32],
        saved: &mut [f32],
        buffers: &mut Buffers,
    ) {
        let dim = self.v.layout.dim;
        let width = self.heads * dim;
        let queries = out.len() / width;
        for head in 0..self.heads {
            let q = self.q(image, head).rows(start..start + queries);
            let scores = grown(&mut buffers.scores, queries * self.width());
            self.score(scores, q, keys.head(head), [image, head], start);
            let out = &mut out[head * dim..];
            let (kept, selection) = (&mut buffers.kept, &mut buffers.selection);
            if self.is_sparse() {
                sparse::attend(self, [image, head], scores, saved, out, kept, selection);
                continue;
            }
            softmax(self, head, scores, saved, selection);
            let weights = Matrix::new(scores, [queries, self.keys], self.width());
            let v = self.v(image, head);
            multiply(out, width, Write::Replace, 1.0, weights, v);
            // Scaling the output takes `dim` multiplications per query; scaling the weights would take one per key.
            for ((state, _), out) in self.records(saved, head).zip(out.chunks_mut(width)) {
                scale(&mut out[..dim], state.scale);
            }
        }
    }

    /// Computes the scores of the queries `q` with all `keys` of the head. `start` is the number of the first query.
    fn score(
        &self,
        scores: &mut [f32],
        q: Matrix<'_>,
        keys: Matrix<'_>,
        [image, head]: [usize; 2],
        start: usize,
    ) {
        multiply(scores, self.width(), Write::Replace, self.scale, q, keys);
        let place = self.place(image, head);
        let shape = [self.keys, self.width()];
        self.terms.apply(scores, shape, place, start, Fill::Score);
    }

    /// The gradients of q, k and v: `size` values per image. The `layouts` place the three within an image (`image_stride`
    /// is unused): the queries come first, token by token. `d_out` is the gradient of the output.
    pub(in crate::attention) fn backward(
        &self,
        d_out: Heads<'a>,
        saved: &[f32],
        size: usize,
        layouts: [HeadLayout; 3],
    ) -> Vec<f32> {
        let parts = (PARTS / self.images.max(1)).clamp(1, self.blocks().max(1));
        let images = (0..self.images).into_par_iter();
        par_build(self.images * size, size, images, |out, image| {
            let backward = Backward::new(self, image, d_out, saved);
            if parts > 1 {
                backward.in_parts(out, layouts, parts);
                return;
            }
            let target = Target {
                out,
                layouts,
                queries: None,
                bias: None,
            };
            backward.whole(target, &mut Buffers::default());
        })
    }
}

wide! {
    /// [`softmax_row`] of every row of a block in one head.
    fn softmax<'a, simd: S>(
        problem: &'a Problem<'a>,
        head: usize,
        scores: &'a mut [f32],
        saved: &'a mut [f32],
        selection: &'a mut Vec<f32>,
    ) {
        let rows = scores.chunks_exact_mut(problem.width());
        let masked = problem.terms.mask.is_some();
        for (row, (state, _)) in rows.zip(problem.records_mut(saved, head)) {
            let row = &mut row[..problem.keys];
            *state = softmax_row(simd, row, problem.kept, selection);
            if masked && state.max == HIDDEN {
                // No key is visible.
                row.fill(f32::NAN);
                *state = RowState::undefined();
            }
        }
    }
}
