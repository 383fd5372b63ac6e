//! Casts around operations that compute in f32 whatever the type of their inputs.

use burn::backend::{Backend, TensorMetadata, tensor::FloatTensor};
use burn::tensor::{DType, FloatDType};

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
