//! Casts around operations that compute in f32 for inputs of any type.

use burn::backend::{TensorMetadata, tensor::FloatTensor};
use burn::tensor::{DType, Tensor};

use crate::convert::{ConvertOps, in_type};

/// Whether a type has 16 bits.
pub(crate) fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}

/// Casts a half type to f32 and leaves other types unchanged. The gradient has the type of `x`.
pub fn widened<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    match is_half(x.dtype()) {
        true => in_type(x, DType::F32),
        false => x,
    }
}

/// Casts to a float type; returns the same tensor if it already has that type.
pub(crate) fn cast<B: ConvertOps>(x: FloatTensor<B>, dtype: DType) -> FloatTensor<B> {
    match x.dtype() == dtype {
        true => x,
        false => B::converted(x, dtype.into()),
    }
}

/// Casts to f32.
pub(crate) fn to_f32<B: ConvertOps>(x: FloatTensor<B>) -> FloatTensor<B> {
    cast::<B>(x, DType::F32)
}

/// Casts a half type to f32 and leaves other types unchanged.
pub(crate) fn widened_primitive<B: ConvertOps>(x: FloatTensor<B>) -> FloatTensor<B> {
    match is_half(x.dtype()) {
        true => to_f32::<B>(x),
        false => x,
    }
}
