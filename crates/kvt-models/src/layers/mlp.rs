//! The MLP of a transformer block.

use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::Tensor;
use kvt_ops::{Residual, gelu, linear, mlp_add, quick_gelu};

use super::{Init, project};

/// The activation between the two layers of an MLP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// `x * Phi(x)`, with the error function.
    Gelu,
    /// `x * sigmoid(1.702 x)`.
    QuickGelu,
}

/// Two linear layers with an activation between them.
#[derive(Module, Debug)]
pub struct Mlp {
    fc1: Linear,
    fc2: Linear,
    #[module(skip)]
    activation: Activation,
}

impl Mlp {
    /// `dim` channels in and out, `hidden` between.
    pub fn new(init: &Init<'_>, dim: usize, hidden: usize, activation: Activation) -> Self {
        Self {
            fc1: init.linear("fc1", dim, hidden, true),
            fc2: init.linear("fc2", hidden, dim, true),
            activation,
        }
    }

    /// The output, added to a residual if there is one.
    ///
    /// # Shapes
    ///
    /// `[.., dim]` to the same shape.
    pub fn forward<const D: usize>(
        &self,
        x: Tensor<D>,
        residual: Option<Residual<D>>,
    ) -> Tensor<D> {
        match (self.activation, residual) {
            (Activation::Gelu, Some(residual)) => mlp_add([&self.fc1, &self.fc2], x, residual),
            (Activation::Gelu, None) => linear(&self.fc2, gelu(linear(&self.fc1, x))),
            (Activation::QuickGelu, residual) => {
                project(&self.fc2, quick_gelu(linear(&self.fc1, x)), residual)
            }
        }
    }
}
