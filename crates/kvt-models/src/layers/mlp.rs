//! The MLP of a transformer block.

use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::{Tensor, activation};
use kvt_ops::{Phase, gelu, linear, linear_add};

use super::{Init, drop_path, drops_paths};

/// What stands between the two layers of an MLP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// `x * Phi(x)`, by the error function.
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

    /// # Shapes
    ///
    /// `[.., dim]` to the same.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        linear(&self.fc2, self.hidden(x))
    }

    /// `residual` and the output for `x`, whose paths are dropped at a rate while training. What is not
    /// dropped is added while it is made.
    ///
    /// # Shapes
    ///
    /// `[.., dim]` each.
    pub fn forward_add<const D: usize>(
        &self,
        x: Tensor<D>,
        residual: Tensor<D>,
        rate: f64,
        phase: Phase,
    ) -> Tensor<D> {
        if drops_paths(rate, phase) {
            residual + drop_path(self.forward(x), rate, phase)
        } else {
            linear_add(&self.fc2, self.hidden(x), residual)
        }
    }

    fn hidden<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let x = linear(&self.fc1, x);
        match self.activation {
            Activation::Gelu => gelu(x),
            Activation::QuickGelu => x.clone() * activation::sigmoid(x * 1.702),
        }
    }
}
