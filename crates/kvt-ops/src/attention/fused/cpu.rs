//! Attention on the CPU: the memory layout of the tensors, for [`super::blocks`].

use burn::backend::{
    Flex, TensorMetadata,
    tensor::{BoolTensor, FloatTensor},
};
use burn::tensor::{DType, Element, Shape, bf16};

use super::blocks::{self, HeadLayout, Heads, Operand, Problem};
use super::{Added, AttentionOps, AttentionSettings, Packing};
use crate::attention::added::cpu::{prepare_terms, terms, with_terms};
use crate::cast::{cast, to_f32};
use crate::contiguous::cpu::contiguous;
use crate::cpu::buffer::{tensor, tensor_of, values_of};
use crate::cpu::panels::Kernel;

mod half;
mod layout;

use layout::{
    adjacent, heads_first, heads_of, of_packed, one_after_another, out_shape, packed_out, parts,
};

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
        let shape = out_shape(&q, &v);
        if let Some(kernel) = half::kernel([&q, &k, &v], &added, settings) {
            let [q, k, v] = [q, k, v].map(adjacent);
            let (out, saved) = forward(&problem::<bf16>(kernel, [&q, &k, &v], settings));
            return (heads_first(&out, q.shape()[1], shape), saved);
        }
        let [q, k, v] = [q, k, v].map(prepare);
        let (bias, mask) = prepare_terms(added);
        let problem = problem(kernel_for(&q, &v), [&q, &k, &v], settings);
        let problem = with_terms(problem, bias.as_ref(), mask.as_ref());
        let (out, saved) = forward(&problem);
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
        if let Some(kernel) = half::kernel([&q, &k, &v], &added, settings) {
            let [q, k, v, d_out] = [q, k, v, cast::<Flex>(d_out, dtype)].map(adjacent);
            let problem = problem::<bf16>(kernel, [&q, &k, &v], settings);
            let (size, layouts) = one_after_another([&q, &k, &v], problem.heads);
            let out = problem.backward(heads_of(&d_out), saved.storage(), size, layouts);
            let out = tensor_of(out, Shape::new([problem.images, size]));
            let [q, k, v] = parts(&out, problem.heads, [&q, &k, &v], layouts);
            return (q, k, v, None);
        }
        let [q, k, v, d_out] = [q, k, v, d_out].map(prepare);
        let (bias, mask) = prepare_terms(added);
        let problem = problem(kernel_for(&q, &v), [&q, &k, &v], settings);
        let problem = with_terms(problem, bias.as_ref(), mask.as_ref());
        let (size, layouts) = one_after_another([&q, &k, &v], problem.heads);
        let saved = saved.storage();
        let (out, sums) = gradients(&problem, heads_of(&d_out), saved, size, layouts);
        let bias_grad = of_bias(sums, bias.as_ref(), bias_dtype);
        let out = tensor(out, Shape::new([problem.images, size]));
        let grads = parts(&out, problem.heads, [&q, &k, &v], layouts);
        let [q, k, v] = grads.map(|grad| cast::<Flex>(grad, dtype));
        (q, k, v, bias_grad)
    }

    fn fused_self_attention(
        qkv: FloatTensor<Self>,
        added: Added<Self>,
        packing: Packing,
        settings: AttentionSettings,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let dtype = qkv.dtype();
        let shape = packed_out(&qkv);
        if let Some(kernel) = half::packed_kernel(&qkv, packing, &added, settings) {
            let qkv = contiguous(qkv);
            let (out, saved) = forward(&half::packed(kernel, &qkv, packing, settings));
            return (out.reshape(shape), saved);
        }
        if dtype == DType::BF16 && added.is_nothing() {
            return half::widened(&qkv.to_contiguous(), packing.heads, settings);
        }
        let qkv = contiguous(to_f32::<Flex>(qkv));
        let (bias, mask) = prepare_terms(added);
        let problem = packed(&qkv, packing, bias.as_ref(), mask.as_ref(), settings);
        let (out, saved) = forward(&problem);
        (cast::<Flex>(out.reshape(shape), dtype), saved)
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
        if let Some(kernel) = half::packed_kernel(&qkv, packing, &added, settings) {
            let [qkv, d_out] = [qkv, cast::<Flex>(d_out, dtype)].map(contiguous);
            let problem = half::packed(kernel, &qkv, packing, settings);
            let (d_out, size, layouts) = of_packed(&problem, &d_out);
            let out = problem.backward(d_out, saved.storage(), size, layouts);
            return (tensor_of::<bf16>(out, qkv.shape()), None);
        }
        let qkv = contiguous(to_f32::<Flex>(qkv));
        let (bias, mask) = prepare_terms(added);
        let problem = packed(&qkv, packing, bias.as_ref(), mask.as_ref(), settings);
        let d_out = contiguous(to_f32::<Flex>(d_out));
        let (d_out, size, layouts) = of_packed(&problem, &d_out);
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

/// The output `[batch, query, heads, value_dim]` and the records of the rows.
fn forward<T: Operand + Element>(
    problem: &Problem<'_, T>,
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
    let out = tensor_of(out, shape(problem.v.layout.dim));
    (out, saved)
}

/// The kernel for queries and values in f32; keys have the channels of queries.
fn kernel_for(q: &FloatTensor<Flex>, v: &FloatTensor<Flex>) -> Option<Kernel> {
    let [_, _, queries, dim] = q.shape().dims();
    let [_, _, keys, value_dim] = v.shape().dims();
    blocks::kernel(queries, keys, [dim, value_dim])
}

/// The problem of tensors from [`prepare`] or [`adjacent`].
fn problem<'a, T: Operand + Element>(
    means: T::Means,
    tensors: [&'a FloatTensor<Flex>; 3],
    settings: AttentionSettings,
) -> Problem<'a, T> {
    let [images, heads, queries, _] = tensors[0].shape().dims();
    let sizes = [images, heads, queries, tensors[1].shape()[2]];
    Problem::new(means, tensors.map(heads_of), sizes, settings)
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
        ..packed_f32(values_of(qkv), qkv.shape().dims(), heads, settings)
    }
}

/// As [`packed_problem`], in f32.
fn packed_f32(
    data: &[f32],
    sizes @ [_, tokens, width]: [usize; 3],
    heads: usize,
    settings: AttentionSettings,
) -> Problem<'_> {
    let kernel = blocks::kernel(tokens, tokens, [width / 3 / heads; 2]);
    packed_problem(kernel, data, sizes, heads, settings)
}

/// The problem of a packed projection `[images, tokens, 3 * dim]`, without bias and mask.
fn packed_problem<T: Operand>(
    means: T::Means,
    data: &[T],
    [images, tokens, width]: [usize; 3],
    heads: usize,
    settings: AttentionSettings,
) -> Problem<'_, T> {
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
    Problem::new(means, inputs, [images, heads, tokens, tokens], settings)
}

/// In f32, with adjacent channels within a token.
fn prepare(x: FloatTensor<Flex>) -> FloatTensor<Flex> {
    adjacent(to_f32::<Flex>(x))
}
