//! k-NN attention on the CPU in blocks of queries: the scores of a block stay in the cache, and are computed
//! again for the gradient. Extra memory does not grow with queries times keys, except for a bit for each where the keys that
//! were dropped are skipped.

mod backward;
mod bits;
mod half;
mod operand;
mod packed;
mod rows;
mod sparse;
mod terms;

use rayon::prelude::*;

use crate::cpu::buffer::{grown, par_build};
use crate::cpu::gemm::Matrix;

use super::AttentionSettings;
use backward::{Backward, Target};
pub(in crate::attention) use operand::Operand;
use operand::{Pass, Place, Side};
pub(in crate::attention) use packed::kernel;
use rows::Rows;
use terms::Fill;
pub(in crate::attention) use terms::{Term, Terms};

/// Minimum and maximum number of queries per block: enough for a fast matrix product.
const QUERIES: [usize; 2] = [32, 64];

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

    fn head<'a, T: Copy>(
        &self,
        data: &'a [T],
        image: usize,
        head: usize,
        tokens: usize,
    ) -> Matrix<'a, T> {
        let data = &data[self.start(image, head)..];
        Matrix::new(data, [tokens, self.dim], self.token_stride)
    }
}

/// A tensor of heads.
#[derive(Clone, Copy)]
pub(in crate::attention) struct Heads<'a, T = f32> {
    pub(in crate::attention) data: &'a [T],
    pub(in crate::attention) layout: HeadLayout,
}

/// The inputs of `softmax(top_k(scale q k^T)) v`.
#[derive(Clone, Copy)]
pub(in crate::attention) struct Problem<'a, T: Operand = f32> {
    /// What products of these numbers need.
    pub(in crate::attention) means: T::Means,
    pub(in crate::attention) images: usize,
    pub(in crate::attention) heads: usize,
    /// If each head is treated as an image of one head: the number of heads in an image of the tensors. Otherwise 1.
    pub(in crate::attention) heads_folded_into_images: usize,
    pub(in crate::attention) queries: usize,
    pub(in crate::attention) keys: usize,
    pub(in crate::attention) q: Heads<'a, T>,
    pub(in crate::attention) k: Heads<'a, T>,
    pub(in crate::attention) v: Heads<'a, T>,
    pub(in crate::attention) scale: f32,
    /// Keys kept per query.
    pub(in crate::attention) kept: usize,
    /// Bias and mask.
    pub(in crate::attention) terms: Terms<'a>,
}

/// Buffers for a block, which a thread reuses from block to block.
#[derive(Default)]
pub(in crate::attention) struct Buffers<S> {
    scores: Vec<f32>,
    d_scores: Vec<f32>,
    selection: Vec<f32>,
    /// For the products of a type of numbers.
    scratch: S,
}

impl<'a, T: Operand> Problem<'a, T> {
    /// Of q, k and v, without bias and mask; `sizes` are images, heads, queries and keys.
    pub(in crate::attention) fn new(
        means: T::Means,
        [q, k, v]: [Heads<'a, T>; 3],
        sizes: [usize; 4],
        settings: AttentionSettings,
    ) -> Self {
        let [images, heads, queries, keys] = sizes;
        Self {
            means,
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
    fn head(&self, heads: Heads<'a, T>, image: usize, head: usize, tokens: usize) -> Matrix<'a, T> {
        let [image, head] = self.place(image, head);
        heads.layout.head(heads.data, image, head, tokens)
    }

    fn q(&self, image: usize, head: usize) -> Matrix<'a, T> {
        self.head(self.q, image, head, self.queries)
    }

    fn k(&self, image: usize, head: usize) -> Matrix<'a, T> {
        self.head(self.k, image, head, self.keys)
    }

    fn v(&self, image: usize, head: usize) -> Matrix<'a, T> {
        self.head(self.v, image, head, self.keys)
    }

    /// Queries per block. All blocks have about the same size; where products compute many rows at a time it is a multiple of these, which
    /// may be a few more than [`QUERIES`], and the last block is shorter.
    fn block(&self) -> usize {
        let [least, most] = QUERIES;
        // If rows are too long for the cache anyway, a larger block costs nothing.
        let cached = SCORES / self.keys.max(1);
        let wanted = if cached < least {
            most
        } else {
            cached.min(most)
        };
        let block = self.queries.div_ceil(self.queries.div_ceil(wanted).max(1));
        block.next_multiple_of(T::height(self.means))
    }

    fn blocks(&self) -> usize {
        self.queries.div_ceil(self.block().max(1))
    }

    /// The output, `[image, query, head, value_dim]`. Fills `saved`, a [record](Self::record) for each
    /// `[image, query, head]`.
    pub(in crate::attention) fn forward(&self, saved: &mut [f32]) -> Vec<T> {
        let width = self.heads * self.v.layout.dim;
        let block = self.block();
        let size = self.queries * width;
        let (len, records) = (self.images * size, self.heads * self.record());
        let saved = saved
            .par_chunks_mut((self.queries * records).max(1))
            .enumerate();
        par_build(len, size, saved, |out: &mut [T], (image, saved)| {
            let packed = T::pack(self, image, Pass::Forward);
            let out = out.par_chunks_mut(block * width);
            let saved = saved.par_chunks_mut(block * records);
            out.zip(saved).enumerate().for_each_init(
                Buffers::default,
                |buffers, (number, (out, saved))| {
                    self.forward_block(image, &packed, number * block, out, saved, buffers);
                },
            );
        })
    }

    /// The shapes of the rows of scores.
    fn rows(&self) -> Rows {
        Rows {
            heads: self.heads,
            keys: self.keys,
            kept: self.kept,
            is_masked: self.terms.mask.is_some(),
            is_sparse: self.is_sparse(),
        }
    }

    /// Numbers saved of a row.
    pub(in crate::attention) fn record(&self) -> usize {
        self.rows().record()
    }

    fn forward_block(
        &self,
        image: usize,
        packed: &T::Packed,
        start: usize,
        out: &mut [T],
        saved: &mut [f32],
        buffers: &mut Buffers<T::Scratch>,
    ) {
        let dim = self.v.layout.dim;
        let width = self.heads * dim;
        let queries = out.len() / width;
        for head in 0..self.heads {
            let place = Place {
                packed,
                image,
                head,
            };
            let q = self.q(image, head).rows(start..start + queries);
            self.score(q, place, start, buffers);
            T::attend(self, place, queries, saved, &mut out[head * dim..], buffers);
        }
    }

    /// Computes the scores of the queries `q`, the first of which has the number `start`, with all keys of the head.
    fn score(
        &self,
        q: Matrix<'_, T>,
        place: Place<'_, T>,
        start: usize,
        buffers: &mut Buffers<T::Scratch>,
    ) {
        let width = self.rows().width();
        let scores = grown(&mut buffers.scores, q.shape()[0] * width);
        let out = (&mut *scores, width);
        T::with_all(
            self,
            out,
            self.scale,
            q,
            place,
            Side::Keys,
            &mut buffers.scratch,
        );
        let place = self.place(place.image, place.head);
        let shape = [self.keys, width];
        self.terms.apply(scores, shape, place, start, Fill::Score);
    }

    /// The gradients of q, k and v: `size` values per image. The `layouts` place the three within an image (`image_stride`
    /// is unused): the queries come first, token by token. `d_out` is the gradient of the output.
    pub(in crate::attention) fn backward(
        &self,
        d_out: Heads<'a, T>,
        saved: &[f32],
        size: usize,
        layouts: [HeadLayout; 3],
    ) -> Vec<T> {
        let parts = (PARTS / self.images.max(1)).clamp(1, self.blocks().max(1));
        let images = (0..self.images).into_par_iter();
        T::gradients(self.images * size, size, images, |out, image| {
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

#[cfg(test)]
mod testing;
