//! Attention on the CPU: the memory layout of the tensors, for [`super::blocks`].

use burn::backend::{
    Flex, TensorMetadata,
    tensor::{BoolTensor, FloatTensor},
};
use burn::tensor::{DType, Shape, bf16};
use rayon::prelude::*;

use super::blocks::{HeadLayout, Heads, Problem};
use super::{Added, AttentionOps, AttentionSettings, Packing};
use crate::attention::added::cpu::{prepare_terms, strides, terms, with_terms};
use crate::cast::{cast, to_f32};
use crate::contiguous::cpu::contiguous;
use crate::cpu::buffer::{par_write_with, tensor, tensor_of, values_in, values_of};
use crate::cpu::round::{copy, copy_new};

impl AttentionOps for Flex {
    /// Saves a record of every row, `[batch, query, heads, record]`; with a bias or a mask `[batch * heads, query, 1, record]`.
    fn fused_attention(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        added: Added<Self>,
        settings: AttentionSettings,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let dtype = q.dtype();
        let [q, k, v] = [q, k, v].map(prepare);
        let (bias, mask) = prepare_terms(added);
        let problem = problem(&q, &k, &v, settings);
        let problem = with_terms(problem, bias.as_ref(), mask.as_ref());
        let (out, saved) = forward(&problem);
        let [batch, heads, queries, _] = q.shape().dims();
        let shape = Shape::new([batch, heads, queries, problem.v.layout.dim]);
        let out = heads_first(&out, problem.heads, shape);
        (cast::<Flex>(out, dtype), saved)
    }

    fn fused_attention_backward(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        added: Added<Self>,
        saved: FloatTensor<Self>,
        d_out: FloatTensor<Self>,
        settings: AttentionSettings,
    ) -> (
        FloatTensor<Self>,
        FloatTensor<Self>,
        FloatTensor<Self>,
        Option<FloatTensor<Self>>,
    ) {
        let dtype = q.dtype();
        let bias_dtype = added.bias().map_or(dtype, |bias| bias.dtype());
        let [q, k, v, d_out] = [q, k, v, d_out].map(prepare);
        let (bias, mask) = prepare_terms(added);
        let problem = problem(&q, &k, &v, settings);
        let problem = with_terms(problem, bias.as_ref(), mask.as_ref());
        let heads = problem.heads;
        // Per image the gradients of q, k and v one after another, each [tokens, heads, dim].
        let mut size = 0;
        let layouts = [&q, &k, &v].map(|x| {
            let [_, _, tokens, dim] = x.shape().dims();
            let layout = HeadLayout {
                offset: size,
                image_stride: 0,
                head_stride: dim,
                token_stride: heads * dim,
                dim,
            };
            size += tokens * heads * dim;
            layout
        });
        let d_out = Heads {
            data: d_out.storage(),
            layout: layout(&d_out),
        };
        let saved = saved.storage();
        let (out, sums) = gradients(&problem, d_out, saved, size, layouts);
        let bias_grad = of_bias(sums, bias.as_ref(), bias_dtype);
        let out = tensor(out, Shape::new([problem.images, size]));
        let part = |x: &FloatTensor<Flex>, layout: HeadLayout| {
            let tokens = x.shape()[2];
            let part = out.narrow(1, layout.offset, tokens * layout.token_stride);
            cast::<Flex>(heads_first(&part, heads, x.shape()), dtype)
        };
        let [of_q, of_k, of_v] = layouts;
        (part(&q, of_q), part(&k, of_k), part(&v, of_v), bias_grad)
    }

    fn fused_self_attention(
        qkv: FloatTensor<Self>,
        added: Added<Self>,
        packing: Packing,
        settings: AttentionSettings,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let dtype = qkv.dtype();
        if dtype == DType::BF16 && added.is_nothing() {
            return bf16_forward(&qkv.to_contiguous(), packing.heads, settings);
        }
        let qkv = contiguous(to_f32::<Flex>(qkv));
        let (bias, mask) = prepare_terms(added);
        let problem = packed(&qkv, packing, bias.as_ref(), mask.as_ref(), settings);
        let (out, saved) = forward(&problem);
        let out = out.reshape(Shape::new([
            problem.images,
            problem.queries,
            problem.heads * problem.v.layout.dim,
        ]));
        (cast::<Flex>(out, dtype), saved)
    }

    fn fused_self_attention_backward(
        qkv: FloatTensor<Self>,
        added: Added<Self>,
        saved: FloatTensor<Self>,
        d_out: FloatTensor<Self>,
        packing: Packing,
        settings: AttentionSettings,
    ) -> (FloatTensor<Self>, Option<FloatTensor<Self>>) {
        let dtype = qkv.dtype();
        let bias_dtype = added.bias().map_or(dtype, |bias| bias.dtype());
        let qkv = contiguous(to_f32::<Flex>(qkv));
        let (bias, mask) = prepare_terms(added);
        let problem = packed(&qkv, packing, bias.as_ref(), mask.as_ref(), settings);
        let d_out = contiguous(to_f32::<Flex>(d_out));
        let [_, tokens, width] = d_out.shape().dims();
        let layouts = [problem.q, problem.k, problem.v].map(|x| x.layout);
        let d_out = Heads {
            data: values_of(&d_out),
            layout: HeadLayout {
                offset: 0,
                image_stride: tokens * width,
                token_stride: width,
                ..problem.v.layout
            },
        };
        let size = 3 * tokens * width;
        let (out, sums) = gradients(&problem, d_out, saved.storage(), size, layouts);
        let out = cast::<Flex>(tensor(out, qkv.shape()), dtype);
        (out, of_bias(sums, bias.as_ref(), bias_dtype))
    }
}

/// The gradients of q, k and v, and the sums of the bias's gradient if there is a bias.
fn gradients<'a>(
    problem: &Problem<'a>,
    d_out: Heads<'a>,
    saved: &[f32],
    size: usize,
    layouts: [HeadLayout; 3],
) -> (Vec<f32>, Option<Vec<f32>>) {
    match &problem.terms.bias {
        Some(bias) => {
            let (out, sums) = problem.backward_with_bias(bias, d_out, saved, size, layouts);
            (out, Some(sums))
        }
        None => (problem.backward(d_out, saved, size, layouts), None),
    }
}

/// The gradient of the bias from its sums.
fn of_bias(
    sums: Option<Vec<f32>>,
    bias: Option<&FloatTensor<Flex>>,
    dtype: DType,
) -> Option<FloatTensor<Flex>> {
    let (sums, bias) = (sums?, bias?);
    Some(cast::<Flex>(tensor(sums, bias.shape()), dtype))
}

/// `[image, token, head, dim]` to this shape, `[batch, heads, token, dim]`: of images of one head as it is, else as a view.
fn heads_first(x: &FloatTensor<Flex>, heads: usize, shape: Shape) -> FloatTensor<Flex> {
    if heads == 1 {
        return x.reshape(shape);
    }
    let [batch, _, tokens, dim] = shape.dims();
    let x = x.reshape(Shape::new([batch, tokens, heads, dim]));
    x.permute(&[0, 2, 1, 3])
}

/// The output `[batch, query, heads, value_dim]` and the records of the rows.
fn forward(problem: &Problem<'_>) -> (FloatTensor<Flex>, FloatTensor<Flex>) {
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
    let sizes = [1, tokens, width];
    let record = packed_problem(&[], sizes, heads, settings).record();
    let shape = Shape::new([images, tokens, heads, record]);
    let mut saved = FloatTensor::<Flex>::empty(shape, DType::F32);
    let records: &mut [f32] = saved.storage_mut();
    let values: &[bf16] = values_in(qkv);
    let values = values.par_chunks((tokens * width).max(1));
    let records = records.par_chunks_mut((tokens * heads * record).max(1));
    let out = par_write_with(
        images * tokens * dim,
        tokens * dim,
        values.zip(records),
        || vec![0.0; tokens * width],
        |image, out, (values, records)| {
            copy(values, image);
            let attended = packed_problem(image, sizes, heads, settings).forward(records);
            copy_new::<f32, bf16>(&attended, out)
        },
    );
    let out = tensor_of::<bf16>(out, Shape::new([images, tokens, dim]));
    (out, saved)
}

fn problem<'a>(
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

/// The problem of a contiguous packed projection, with bias and mask, both from [`prepare_terms`].
fn packed<'a>(
    qkv: &'a FloatTensor<Flex>,
    Packing { heads, windows }: Packing,
    bias: Option<&'a FloatTensor<Flex>>,
    mask: Option<&'a BoolTensor<Flex>>,
    settings: AttentionSettings,
) -> Problem<'a> {
    Problem {
        terms: terms(windows * heads, windows, bias, mask),
        ..packed_problem(values_of(qkv), qkv.shape().dims(), heads, settings)
    }
}

/// The problem of a packed projection `[images, tokens, 3 * dim]`, without bias and mask.
fn packed_problem(
    data: &[f32],
    [images, tokens, width]: [usize; 3],
    heads: usize,
    settings: AttentionSettings,
) -> Problem<'_> {
    let dim = width / 3 / heads;
    let inputs = [0, 1, 2].map(|part| Heads {
        data,
        layout: HeadLayout {
            offset: part * heads * dim,
            image_stride: tokens * width,
            head_stride: dim,
            token_stride: width,
            dim,
        },
    });
    Problem::new(inputs, [images, heads, tokens, tokens], settings)
}

/// In f32, with adjacent channels within a token.
fn prepare(x: FloatTensor<Flex>) -> FloatTensor<Flex> {
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
fn layout(x: &FloatTensor<Flex>) -> HeadLayout {
    let [image_stride, head_stride, token_stride, _] = strides(x);
    HeadLayout {
        offset: x.layout().start_offset(),
        image_stride,
        head_stride,
        token_stride,
        dim: x.shape()[3],
    }
}
