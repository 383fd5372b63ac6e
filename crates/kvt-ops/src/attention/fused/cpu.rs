//! Attention on the CPU: the memory layout of the tensors, for [`super::blocks`].

use burn::backend::{Flex, TensorMetadata, tensor::FloatTensor};
use burn::tensor::{DType, Shape, bf16};
use rayon::prelude::*;

use super::blocks::{HeadLayout, Heads, Problem};
use super::{AttentionSettings, FusedAttentionOps};
use crate::cast::{cast, to_f32};
use crate::contiguous::cpu::contiguous;
use crate::cpu::buffer::{par_build_of, tensor, tensor_of, values_in};
use crate::cpu::round::copy;

impl FusedAttentionOps for Flex {
    /// Saves a record of every row, `[batch, query, heads, record]`.
    fn fused_attention(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        settings: AttentionSettings,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let dtype = q.dtype();
        let [q, k, v] = [q, k, v].map(prepare);
        let problem = problem(&q, &k, &v, settings);
        let (out, saved) = forward(&problem);
        // [batch, query, heads, value_dim] to [batch, heads, query, value_dim], as a view.
        (cast::<Flex>(out.permute(&[0, 2, 1, 3]), dtype), saved)
    }

    fn fused_attention_backward(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        saved: FloatTensor<Self>,
        d_out: FloatTensor<Self>,
        settings: AttentionSettings,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let dtype = q.dtype();
        let [q, k, v, d_out] = [q, k, v, d_out].map(prepare);
        let problem = problem(&q, &k, &v, settings);
        // Per image the gradients of q, k and v one after another, each [tokens, heads, dim].
        let mut offset = 0;
        let parts = [
            (problem.queries, &q),
            (problem.keys, &k),
            (problem.keys, &v),
        ]
        .map(|(tokens, x)| {
            let [_, heads, _, dim] = x.shape().dims();
            let layout = HeadLayout {
                offset,
                image_stride: 0,
                head_stride: dim,
                token_stride: heads * dim,
                dim,
            };
            offset += tokens * heads * dim;
            (layout, tokens)
        });
        let d_out = Heads {
            data: d_out.storage(),
            layout: layout(&d_out),
        };
        let layouts = parts.map(|(layout, _)| layout);
        let out = problem.backward(d_out, saved.storage(), offset, layouts);
        let out = tensor(out, Shape::new([problem.images, offset]));
        let [q, k, v] = parts.map(|(layout, tokens)| {
            let heads = layout.token_stride / layout.dim.max(1);
            let part = out
                .narrow(1, layout.offset, tokens * layout.token_stride)
                .reshape(Shape::new([problem.images, tokens, heads, layout.dim]));
            cast::<Flex>(part.permute(&[0, 2, 1, 3]), dtype)
        });
        (q, k, v)
    }

    fn fused_self_attention(
        qkv: FloatTensor<Self>,
        heads: usize,
        settings: AttentionSettings,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let dtype = qkv.dtype();
        if dtype == DType::BF16 {
            return bf16_forward(&qkv.to_contiguous(), heads, settings);
        }
        let qkv = contiguous(to_f32::<Flex>(qkv));
        let problem = packed(&qkv, heads, settings);
        let (out, saved) = forward(&problem);
        let out = out.reshape(Shape::new([
            problem.images,
            problem.queries,
            heads * problem.v.layout.dim,
        ]));
        (cast::<Flex>(out, dtype), saved)
    }

    fn fused_self_attention_backward(
        qkv: FloatTensor<Self>,
        saved: FloatTensor<Self>,
        d_out: FloatTensor<Self>,
        heads: usize,
        settings: AttentionSettings,
    ) -> FloatTensor<Self> {
        let dtype = qkv.dtype();
        let qkv = contiguous(to_f32::<Flex>(qkv));
        let problem = packed(&qkv, heads, settings);
        let d_out = contiguous(to_f32::<Flex>(d_out));
        let [_, tokens, width] = d_out.shape().dims();
        let d_out_layout = HeadLayout {
            offset: d_out.layout().start_offset(),
            image_stride: tokens * width,
            token_stride: width,
            ..problem.v.layout
        };
        let layouts = [problem.q, problem.k, problem.v].map(|x| HeadLayout {
            offset: x.layout.offset - problem.q.layout.offset,
            ..x.layout
        });
        let d_out = Heads {
            data: d_out.storage(),
            layout: d_out_layout,
        };
        let size = 3 * tokens * width;
        let out = problem.backward(d_out, saved.storage(), size, layouts);
        cast::<Flex>(tensor(out, qkv.shape()), dtype)
    }
}

/// The output `[batch, query, heads, value_dim]` and the records of the rows.
pub(in crate::attention) fn forward(
    problem: &Problem<'_>,
) -> (FloatTensor<Flex>, FloatTensor<Flex>) {
    let Problem {
        images,
        queries,
        heads,
        ..
    } = *problem;
    let shape = |last| Shape::new([images, queries, heads, last]);
    let mut saved = FloatTensor::<Flex>::empty(shape(problem.record()), DType::F32);
    let out = problem.forward(saved.storage_mut());
    let out = tensor(out, shape(problem.v.layout.dim));
    (out, saved)
}

/// The output `[batch, tokens, dim]` of a contiguous packed projection, and the records of the rows. Each image is widened in the cache, and
/// rounded when it is written.
fn bf16_forward(
    qkv: &FloatTensor<Flex>,
    heads: usize,
    settings: AttentionSettings,
) -> (FloatTensor<Flex>, FloatTensor<Flex>) {
    let [images, tokens, width] = qkv.shape().dims();
    let dim = width / 3;
    let place = Packed {
        offset: 0,
        sizes: [1, tokens, width],
    };
    let record = place.problem(&[], heads, settings).record();
    let shape = Shape::new([images, tokens, heads, record]);
    let mut saved = FloatTensor::<Flex>::empty(shape, DType::F32);
    let records: &mut [f32] = saved.storage_mut();
    let values: &[bf16] = values_in(qkv);
    let values = values.par_chunks((tokens * width).max(1));
    let records = records.par_chunks_mut((tokens * heads * record).max(1));
    let out = par_build_of(
        images * tokens * dim,
        tokens * dim,
        values.zip(records),
        || vec![0.0; tokens * width],
        |image, out, (values, records)| {
            copy(values, image);
            let attended = place.problem(image, heads, settings).forward(records);
            copy::<f32, bf16>(&attended, out);
        },
    );
    let out = tensor_of::<bf16>(out, Shape::new([images, tokens, dim]));
    (out, saved)
}

pub(in crate::attention) fn problem<'a>(
    q: &'a FloatTensor<Flex>,
    k: &'a FloatTensor<Flex>,
    v: &'a FloatTensor<Flex>,
    settings: AttentionSettings,
) -> Problem<'a> {
    let [images, heads, queries, _] = q.shape().dims();
    let [_, _, keys, _] = k.shape().dims();
    let inputs = [q, k, v].map(|x| Heads {
        data: x.storage(),
        layout: layout(x),
    });
    Problem::new(inputs, [images, heads, queries, keys], settings)
}

/// The problem of a contiguous packed projection.
fn packed(qkv: &FloatTensor<Flex>, heads: usize, settings: AttentionSettings) -> Problem<'_> {
    let place = Packed {
        offset: qkv.layout().start_offset(),
        sizes: qkv.shape().dims(),
    };
    place.problem(qkv.storage(), heads, settings)
}

/// Where a packed projection `[batch, tokens, 3 * dim]` is in a slice.
struct Packed {
    offset: usize,
    sizes: [usize; 3],
}

impl Packed {
    fn problem<'a>(
        &self,
        data: &'a [f32],
        heads: usize,
        settings: AttentionSettings,
    ) -> Problem<'a> {
        let [images, tokens, width] = self.sizes;
        let dim = width / 3 / heads;
        let inputs = [0, 1, 2].map(|part| Heads {
            data,
            layout: HeadLayout {
                offset: self.offset + part * heads * dim,
                image_stride: tokens * width,
                head_stride: dim,
                token_stride: width,
                dim,
            },
        });
        Problem::new(inputs, [images, heads, tokens, tokens], settings)
    }
}

/// In f32, with adjacent channels within a token.
pub(in crate::attention) fn prepare(x: FloatTensor<Flex>) -> FloatTensor<Flex> {
    let x = to_f32::<Flex>(x);
    let [_, _, tokens, dim] = x.shape().dims();
    let fits = match *x.layout().strides() {
        // Neither broadcast nor flipped: positive strides, tokens that do not overlap.
        [image, head, token, channel] => {
            channel == 1 && image > 0 && head > 0 && (token >= dim as isize || tokens == 1)
        }
        _ => false,
    };
    if fits { x } else { x.to_contiguous() }
}

/// The layout of a tensor from [`prepare`].
pub(in crate::attention) fn layout(x: &FloatTensor<Flex>) -> HeadLayout {
    let stride = |axis: usize| {
        x.layout()
            .strides()
            .get(axis)
            .map_or(0, |s| s.unsigned_abs())
    };
    let [_, _, _, dim] = x.shape().dims();
    HeadLayout {
        offset: x.layout().start_offset(),
        image_stride: stride(0),
        head_stride: stride(1),
        token_stride: stride(2),
        dim,
    }
}
