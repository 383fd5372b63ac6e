//! Mixed precision: the type in which a model multiplies.
//!
//! Weights, the residual stream, the arithmetic of norms, the head and the loss are f32. Activations that enter a branch of products
//! are [lowered](Precision::lower), a norm as it is [written](Precision::lowered_norm), and from there layers cast their weights to the type of the activations. A branch
//! is f32 again where it joins the stream.

use burn::nn::LayerNorm;
use burn::tensor::{DType, Tensor};
use kvt_ops::{in_type, layer_norm, rounded_layer_norm};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The type of the operands of matrix products, convolutions and attention.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 32 bits, like everything else.
    #[default]
    F32,
    /// 16 bits with the range of f32, and 8 bits of accuracy.
    Bf16,
    /// 16 bits with 11 bits of accuracy, up to 65,504: small gradients vanish unless the loss is scaled.
    F16,
}

impl Precision {
    /// The name in configurations.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
        }
    }

    /// The type of the operands.
    pub fn dtype(self) -> DType {
        match self {
            Self::F32 => DType::F32,
            Self::Bf16 => DType::BF16,
            Self::F16 => DType::F16,
        }
    }

    /// Casts activations that enter a branch of products. Their gradient has the type of `x`.
    pub fn lower<const D: usize>(self, x: Tensor<D>) -> Tensor<D> {
        match self {
            Self::F32 => x,
            half => in_type(x, half.dtype()),
        }
    }

    /// [`layer_norm`](kvt_ops::layer_norm) of the stream, [lowered](Self::lower) as it is written.
    pub fn lowered_norm<const D: usize>(
        self,
        norm: &LayerNorm,
        x: Tensor<D>,
        epsilon: f64,
    ) -> Tensor<D> {
        match self {
            Self::F32 => layer_norm(norm, x, epsilon),
            half => rounded_layer_norm(norm, x, epsilon, half.dtype()),
        }
    }
}
