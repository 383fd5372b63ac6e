//! Casts between f32 and bf16, on all threads. Burn casts on one.

use burn::backend::{Flex, TensorMetadata, tensor::FloatTensor};
use burn::tensor::{DType, FloatDType, bf16};
use pulp::Arch;
use rayon::prelude::*;

use super::bf16::Number;
use super::buffer::{par_build_of, tensor_of, values_in};

/// Values of a block.
const BLOCK: usize = 16 * 1024;

/// As f32, without a copy if it is f32 already.
pub(crate) fn to_f32(x: FloatTensor<Flex>) -> FloatTensor<Flex> {
    match x.dtype() {
        DType::F32 => x,
        DType::BF16 => convert::<bf16, f32>(&x.to_contiguous()),
        _ => cast(x, FloatDType::F32),
    }
}

/// As bf16, without a copy if it is bf16 already.
pub(crate) fn to_bf16(x: FloatTensor<Flex>) -> FloatTensor<Flex> {
    match x.dtype() {
        DType::BF16 => x,
        DType::F32 => convert::<f32, bf16>(&x.to_contiguous()),
        _ => cast(x, FloatDType::BF16),
    }
}

/// From f32 back to the type of the caller's tensors.
pub(crate) fn from_f32(x: FloatTensor<Flex>, dtype: DType) -> FloatTensor<Flex> {
    match dtype {
        DType::F32 => x,
        DType::BF16 => to_bf16(x),
        dtype => cast(x, dtype.into()),
    }
}

/// Rounds or widens the values of a block, in instructions of this CPU.
pub(crate) fn copy<A: Number, B: Number>(from: &[A], to: &mut [B]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for (to, from) in to.iter_mut().zip(from) {
                *to = B::rounded(from.widened());
            }
        },
    );
}

fn convert<A, B>(x: &FloatTensor<Flex>) -> FloatTensor<Flex>
where
    A: Number + burn::tensor::Element,
    B: Number + burn::tensor::Element,
{
    let values: &[A] = values_in(x);
    let blocks = values.par_chunks(BLOCK);
    let out = par_build_of(
        values.len(),
        BLOCK,
        blocks,
        || (),
        |(), to, from| {
            copy::<A, B>(from, to);
        },
    );
    tensor_of(out, x.shape())
}

fn cast(x: FloatTensor<Flex>, dtype: FloatDType) -> FloatTensor<Flex> {
    use burn::backend::ops::FloatTensorOps;
    Flex::float_cast(x, dtype)
}
