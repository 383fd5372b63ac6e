//! Casts around operations that compute in f32 for inputs of any type.

use burn::backend::{Dispatch, TensorMetadata, tensor::FloatTensor};
use burn::tensor::{DType, Tensor};

use crate::convert::ConvertOps;

/// Whether a type has 16 bits.
pub(crate) fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}

/// Casts a half type to f32 and leaves other types unchanged. The gradient has the type of `x`.
pub fn widened<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    Tensor::from_dispatch(widened_primitive::<Dispatch>(x.into_dispatch()))
}

/// Casts to a float type; returns the same tensor if it already has that type.
pub(crate) fn cast<B: ConvertOps>(x: FloatTensor<B>, dtype: DType) -> FloatTensor<B> {
    if x.dtype() == dtype {
        x
    } else {
        B::converted(x, dtype.into())
    }
}

/// Casts to f32.
pub(crate) fn to_f32<B: ConvertOps>(x: FloatTensor<B>) -> FloatTensor<B> {
    cast::<B>(x, DType::F32)
}

/// As [`widened`].
pub(crate) fn widened_primitive<B: ConvertOps>(x: FloatTensor<B>) -> FloatTensor<B> {
    if is_half(x.dtype()) {
        to_f32::<B>(x)
    } else {
        x
    }
}
