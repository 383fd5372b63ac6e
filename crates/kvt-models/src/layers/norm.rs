//! The norm of a block.

use burn::module::Module;
use burn::nn::LayerNorm;
use burn::tensor::Tensor;
use kvt_ops::{Phase, layer_norm};

use super::{BatchNorm, BatchNormSettings, Init};

/// The norm before the branches of a block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NormKind {
    /// A layer norm: over the channels of each token.
    Layer {
        /// Added to the variance.
        epsilon: f64,
    },
    /// A batch norm: over all tokens of a batch, for each channel.
    Batch(BatchNormSettings),
}

impl NormKind {
    /// The number that is added to the variance.
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
    /// A norm of `dim` channels with unit weight and zero bias.
    pub(crate) fn new(init: &Init<'_>, kind: NormKind, dim: usize) -> Self {
        match kind {
            NormKind::Layer { epsilon } => Self::Layer(init.layer_norm(dim, epsilon)),
            NormKind::Batch(settings) => Self::Batch(init.batch_norm(dim, settings)),
        }
    }

    /// `epsilon` is for the layer norm, since Burn's does not expose its own.
    ///
    /// # Shapes
    ///
    /// `[batch, .., dim]` to the same shape.
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

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use burn::tensor::{Device, TensorData};
    use burn_store::{BurnToPyTorchAdapter, ModuleSnapshot};
    use kvt_ops::Key;

    use super::*;

    #[derive(Module, Debug)]
    struct Holder {
        norm1: Norm,
    }

    const LAYER: NormKind = NormKind::Layer { epsilon: 1e-6 };

    fn batch() -> NormKind {
        NormKind::Batch(BatchNormSettings::default())
    }

    fn norm(kind: NormKind, dim: usize) -> Norm {
        Norm::new(&Init::new(&Device::flex(), Key::new(0)), kind, dim)
    }

    #[test]
    fn the_choice_does_not_show_in_the_names() {
        let names = |kind| {
            let holder = Holder {
                norm1: norm(kind, 3),
            };
            let adapter = Box::new(BurnToPyTorchAdapter);
            let tensors = holder.collect(None, Some(adapter), true);
            tensors.into_iter().map(|x| x.name).collect::<Vec<_>>()
        };
        assert_eq!(names(LAYER), ["norm1.weight", "norm1.bias"]);
        let batch = names(batch());
        let expected = ["weight", "bias", "running_mean", "running_var"];
        assert_eq!(batch, expected.map(|name| format!("norm1.{name}")));
    }

    /// Two tokens of two channels, worked by hand: a layer norm sees a token, a batch norm a channel.
    #[test]
    fn tokens_or_channels_are_normalised() {
        let x = [[1.0f32, 3.0], [1.0, 7.0]];
        let forward = |kind: NormKind| {
            let x = TensorData::new(x.concat(), [1, 2, 2]);
            let x = Tensor::<3>::from_data(x, &Device::flex());
            let phase = Phase::Train(Key::new(0));
            let out = norm(kind, 2).forward(x, kind.epsilon(), phase);
            out.into_data().try_to_vec::<f32>().unwrap()
        };
        let close = |actual: Vec<f32>, expected: [f32; 4]| {
            for (a, e) in actual.iter().zip(expected) {
                assert!((a - e).abs() < 1e-4, "{actual:?}");
            }
        };
        close(forward(LAYER), [-1.0, 1.0, -1.0, 1.0]);
        close(forward(batch()), [0.0, -1.0, 0.0, 1.0]);
    }
}
