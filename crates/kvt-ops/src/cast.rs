//! Casts around operations that compute in f32 whatever the type of their inputs.

use burn::backend::{Backend, TensorMetadata, tensor::FloatTensor};
use burn::tensor::{DType, FloatDType, Tensor};

use crate::convert::in_type;

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

/// A half type as f32, and every other type as it is.
pub(crate) fn widened_primitive<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    match is_half(x.dtype()) {
        true => B::float_cast(x, FloatDType::F32),
        false => x,
    }
}

/// As f32, without a copy if it is f32 already.
pub(crate) fn to_f32<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    match x.dtype() {
        DType::F32 => x,
        _ => B::float_cast(x, FloatDType::F32),
    }
}

/// From f32 back to the type of the caller's tensors.
pub(crate) fn from_f32<B: Backend>(x: FloatTensor<B>, dtype: DType) -> FloatTensor<B> {
    match dtype {
        DType::F32 => x,
        dtype => B::float_cast(x, dtype.into()),
    }
}
