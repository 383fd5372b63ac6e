//! Casts on the CPU.

use burn::backend::ops::FloatTensorOps;
use burn::backend::{Flex, tensor::FloatTensor};
use burn::tensor::{DType, FloatDType};

use super::ConvertOps;
use crate::cpu::round::{to_bf16, to_f32};

impl ConvertOps for Flex {
    fn converted(x: FloatTensor<Self>, dtype: FloatDType) -> FloatTensor<Self> {
        match (x.dtype(), dtype) {
            (DType::BF16, FloatDType::F32) => to_f32(x),
            (DType::F32, FloatDType::BF16) => to_bf16(x),
            _ => Self::float_cast(x, dtype),
        }
    }
}
