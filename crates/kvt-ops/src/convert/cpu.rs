//! Casts on the CPU.

use burn::backend::ops::FloatTensorOps;
use burn::backend::{Flex, tensor::FloatTensor};
use burn::tensor::{DType, FloatDType, bf16};

use super::ConvertOps;
use crate::cpu::round::convert;

impl ConvertOps for Flex {
    fn converted(x: FloatTensor<Self>, dtype: FloatDType) -> FloatTensor<Self> {
        match (x.dtype(), dtype) {
            (DType::BF16, FloatDType::F32) => convert::<bf16, f32>(&x.to_contiguous()),
            (DType::F32, FloatDType::BF16) => convert::<f32, bf16>(&x.to_contiguous()),
            _ => Self::float_cast(x, dtype),
        }
    }
}
