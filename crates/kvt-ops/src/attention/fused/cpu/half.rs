//! Attention of tensors in bf16: with the CPU's instructions for it, or image by image in f32.

use burn::backend::{Flex, TensorMetadata, tensor::FloatTensor};
use burn::tensor::{DType, Shape, bf16};
use rayon::prelude::*;

use super::{Added, AttentionSettings, Packing, packed_f32, packed_problem, problem};
use crate::attention::fused::blocks::Problem;
use crate::cpu::bf16::Kernel;
use crate::cpu::buffer::{par_write_with, tensor_of, values_in};
use crate::cpu::round::{copy, copy_new};

/// The CPU's instructions for bf16, if they are of use for the attention of these tensors.
pub(super) fn kernel(
    tensors: [&FloatTensor<Flex>; 3],
    added: &Added<Flex>,
    settings: AttentionSettings,
) -> Option<Kernel> {
    let halves = tensors.iter().all(|x| x.dtype() == DType::BF16);
    let kernel = Kernel::detect().filter(|_| halves && added.is_nothing())?;
    let problem = problem::<bf16>(kernel, tensors, settings);
    problem.is_suited().then_some(kernel)
}

/// As [`kernel`], of a packed projection.
pub(super) fn packed_kernel(
    qkv: &FloatTensor<Flex>,
    packing: Packing,
    added: &Added<Flex>,
    settings: AttentionSettings,
) -> Option<Kernel> {
    let fits = qkv.dtype() == DType::BF16 && added.is_nothing();
    let kernel = Kernel::detect().filter(|_| fits)?;
    let problem = packed_problem::<bf16>(kernel, &[], qkv.shape().dims(), packing.heads, settings);
    problem.is_suited().then_some(kernel)
}

/// The problem of a contiguous packed projection.
pub(super) fn packed(
    kernel: Kernel,
    qkv: &FloatTensor<Flex>,
    packing: Packing,
    settings: AttentionSettings,
) -> Problem<'_, bf16> {
    let values = values_in(qkv);
    packed_problem(kernel, values, qkv.shape().dims(), packing.heads, settings)
}

/// The output `[batch, tokens, dim]` of a contiguous packed projection, and the records of the rows. Each image is widened in the cache, and
/// rounded when it is written.
pub(super) fn widened(
    qkv: &FloatTensor<Flex>,
    heads: usize,
    settings: AttentionSettings,
) -> (FloatTensor<Flex>, FloatTensor<Flex>) {
    let [images, tokens, width] = qkv.shape().dims();
    let dim = width / 3;
    let sizes = [1, tokens, width];
    let record = packed_f32(&[], sizes, heads, settings).record();
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
            let attended = packed_f32(image, sizes, heads, settings).forward(records);
            copy_new::<f32, bf16>(&attended, out)
        },
    );
    let out = tensor_of::<bf16>(out, Shape::new([images, tokens, dim]));
    (out, saved)
}
