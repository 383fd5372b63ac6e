//! The norm of a block.

use burn::module::Module;
use burn::nn::LayerNorm;
use burn::tensor::Tensor;
use kvt_ops::{Phase, layer_norm};

use super::{BatchNorm, BatchNormSettings, Init};

/// Which norm stands before the branches of a block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NormKind {
    /// A layer norm: over the channels of each token.
    Layer {
        /// Is added to the variance.
        epsilon: f64,
    },
    /// A batch norm: over all tokens of a batch, for each channel.
    Batch(BatchNormSettings),
}

impl NormKind {
    /// Is added to the variance.
    pub(crate) fn epsilon(self) -> f64 {
        match self {
            Self::Layer { epsilon } => epsilon,
            Self::Batch(settings) => settings.epsilon,
        }
    }
}

/// A norm of tokens `[batch, .., dim]`.
#[derive(Module, Debug)]
pub(crate) enum Norm {
    Layer(LayerNorm),
    Batch(BatchNorm),
}

impl Norm {
    /// A norm of `dim` channels that does nothing yet: unit weight, zero bias.
    pub(crate) fn new(init: &Init<'_>, kind: NormKind, dim: usize) -> Self {
        match kind {
            NormKind::Layer { epsilon } => Self::Layer(init.layer_norm(dim, epsilon)),
            NormKind::Batch(settings) => Self::Batch(init.batch_norm(dim, settings)),
        }
    }

    /// `epsilon` is for the layer norm, since Burn's does not tell the one it was made with.
    ///
    /// # Shapes
    ///
    /// `[batch, .., dim]` to the same.
    pub(crate) fn forward<const D: usize>(
        &self,
        x: Tensor<D>,
        epsilon: f64,
        phase: Phase,
    ) -> Tensor<D> {
        match self {
            Self::Layer(norm) => layer_norm(norm, x, epsilon),
            Self::Batch(norm) => norm.forward_tokens(x, phase),
        }
    }
}
