//! The MLP of a transformer block.

use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::Tensor;
use kvt_attention::{gelu, linear, linear_add};

use super::Init;

/// Two linear layers with a GELU between them.
#[derive(Module, Debug)]
pub struct Mlp {
    fc1: Linear,
    fc2: Linear,
}

impl Mlp {
    /// `dim` channels in and out, `hidden` between.
    pub fn new(init: &Init<'_>, dim: usize, hidden: usize) -> Self {
        Self {
            fc1: init.linear("fc1", dim, hidden, true),
            fc2: init.linear("fc2", hidden, dim, true),
        }
    }

    /// # Shapes
    ///
    /// `[batch, tokens, dim]` to the same.
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        linear(&self.fc2, gelu(linear(&self.fc1, x)))
    }

    /// [`Self::forward`] added to `residual`, `[batch, tokens, dim]`.
    pub fn forward_add(&self, x: Tensor<3>, residual: Tensor<3>) -> Tensor<3> {
        linear_add(&self.fc2, gelu(linear(&self.fc1, x)), residual)
    }
}
