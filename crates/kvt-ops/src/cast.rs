//! Casts around operations that compute in f32 whatever the type of their inputs.

use burn::backend::{TensorMetadata, tensor::FloatTensor};
use burn::tensor::{DType, Tensor};

use crate::convert::{ConvertOps, in_type};

/// Whether a type has 16 bits.
pub(crate) fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}

/// A half type as f32, and every other type as it is. The gradient comes back in the type of `x`.
pub fn widened<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    match is_half(x.dtype()) {
        true => in_type(x, DType::F32),
        false => x,
    }
}

/// In a float type; the same tensor if it has that type already.
pub(crate) fn cast<B: ConvertOps>(x: FloatTensor<B>, dtype: DType) -> FloatTensor<B> {
    match x.dtype() == dtype {
        true => x,
        false => B::converted(x, dtype.into()),
    }
}

/// As f32.
pub(crate) fn to_f32<B: ConvertOps>(x: FloatTensor<B>) -> FloatTensor<B> {
    cast::<B>(x, DType::F32)
}

/// A half type as f32, and every other type as it is.
pub(crate) fn widened_primitive<B: ConvertOps>(x: FloatTensor<B>) -> FloatTensor<B> {
    match is_half(x.dtype()) {
        true => to_f32::<B>(x),
        false => x,
    }
}
