//! Attention with a bias or a mask on the CPU: the memory layout of the tensors, for [`blocks`].
//!
//! Each head is treated as an image with one head: with windows folded into the heads, many small heads are shared among the threads.

use burn::backend::{
    Flex, TensorMetadata,
    tensor::{BoolTensor, FloatTensor},
};
use burn::tensor::Shape;

use super::{AddedAttentionOps, Given};
use crate::attention::AttentionSettings;
use crate::attention::fused::blocks::{HeadLayout, Heads, Problem, Term, Terms};
use crate::attention::fused::cpu::{forward, layout, prepare, problem};
use crate::cast::{cast, to_f32};
use crate::cpu::buffer::tensor;

impl AddedAttentionOps for Flex {
    /// Saves a record of every row, `[batch * heads, query, 1, record]`.
    fn added_attention(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        mask: BoolTensor<Self>,
        given: Given,
        settings: AttentionSettings,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let dtype = q.dtype();
        let [q, k, v] = [q, k, v].map(prepare);
        let (bias, mask) = prepare_terms(bias, mask);
        let problem = with_terms(problem(&q, &k, &v, settings), &bias, &mask, given);
        let (out, saved) = forward(&problem);
        let [batch, heads, queries, _] = q.shape().dims();
        let out = out.reshape(Shape::new([batch, heads, queries, problem.v.layout.dim]));
        (cast::<Flex>(out, dtype), saved)
    }

    fn added_attention_backward(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        mask: BoolTensor<Self>,
        saved: FloatTensor<Self>,
        d_out: FloatTensor<Self>,
        given: Given,
        settings: AttentionSettings,
    ) -> (
        FloatTensor<Self>,
        FloatTensor<Self>,
        FloatTensor<Self>,
        FloatTensor<Self>,
    ) {
        let (dtype, bias_dtype) = (q.dtype(), bias.dtype());
        let [q, k, v, d_out] = [q, k, v, d_out].map(prepare);
        let (bias, mask) = prepare_terms(bias, mask);
        let problem = with_terms(problem(&q, &k, &v, settings), &bias, &mask, given);
        // Per head the gradients of q, k and v one after another, each [tokens, dim].
        let mut size = 0;
        let layouts = [&q, &k, &v].map(|x| {
            let [_, _, tokens, dim] = x.shape().dims();
            let layout = HeadLayout {
                offset: size,
                image_stride: 0,
                head_stride: 0,
                token_stride: dim,
                dim,
            };
            size += tokens * dim;
            layout
        });
        let d_out = Heads {
            data: d_out.storage(),
            layout: layout(&d_out),
        };
        let saved = saved.storage();
        let (out, bias_grad) = match &problem.terms.bias {
            Some(term) => {
                let (out, sums) = problem.backward_with_bias(term, d_out, saved, size, layouts);
                let sums = tensor(sums, bias.shape());
                (out, cast::<Flex>(sums, bias_dtype))
            }
            // Without a bias, the gradient is a placeholder that is never read.
            None => (problem.backward(d_out, saved, size, layouts), bias.clone()),
        };
        let out = tensor(out, Shape::new([problem.images, size]));
        let part = |x: &FloatTensor<Flex>, layout: HeadLayout| {
            let [_, _, tokens, dim] = x.shape().dims();
            let part = out.narrow(1, layout.offset, tokens * dim);
            cast::<Flex>(part.reshape(x.shape()), dtype)
        };
        let [of_q, of_k, of_v] = layouts;
        (part(&q, of_q), part(&k, of_k), part(&v, of_v), bias_grad)
    }
}

/// The problem with each head as an image, and with bias and mask added to the scores.
fn with_terms<'a>(
    problem: Problem<'a>,
    bias: &'a FloatTensor<Flex>,
    mask: &'a BoolTensor<Flex>,
    given: Given,
) -> Problem<'a> {
    Problem {
        images: problem.images * problem.heads,
        heads: 1,
        heads_folded_into_images: problem.heads.max(1),
        terms: Terms {
            heads: problem.heads,
            bias: given.bias.then(|| term(bias, bias.storage())),
            mask: given.mask.then(|| term(mask, mask.bytes())),
        },
        ..problem
    }
}

/// The bias in f32, and both tensors with adjacent values within a row.
fn prepare_terms(
    bias: FloatTensor<Flex>,
    mask: BoolTensor<Flex>,
) -> (FloatTensor<Flex>, BoolTensor<Flex>) {
    let adjacent = |x: FloatTensor<Flex>| {
        let strides = x.layout().strides();
        // A tensor that is not flipped can be read as it is stored, even if it was expanded.
        let fits = strides.iter().all(|stride| *stride >= 0)
            && (x.shape()[3] == 1 || strides.last() == Some(&1));
        if fits { x } else { x.to_contiguous() }
    };
    // Both are tensors of the same type on this backend.
    (adjacent(to_f32::<Flex>(bias)), adjacent(mask))
}

/// A tensor from [`prepare_terms`] and its storage.
fn term<'a, T>(x: &FloatTensor<Flex>, data: &'a [T]) -> Term<'a, T> {
    let mut strides = [0; 4];
    for (stride, actual) in strides.iter_mut().zip(x.layout().strides()) {
        *stride = actual.unsigned_abs();
    }
    Term {
        data,
        offset: x.layout().start_offset(),
        shape: x.shape().dims(),
        strides,
    }
}
