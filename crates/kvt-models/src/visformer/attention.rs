//! Attention whose projections are convolutions of single pixels, without biases.

use burn::module::Module;
use burn::tensor::Tensor;
use kvt_attention::{AttentionConfig, Mixer, Place};
use kvt_ops::Residual;

use crate::layers::{Conv2d, ConvSettings, Init, Pass, plus};

/// Multi-head self-attention of the tokens of a map.
#[derive(Module, Debug)]
pub(super) struct Attention {
    /// `[3 * dim, dim, 1, 1]`, in the order `(3, heads, head_dim)`.
    qkv: Conv2d,
    proj: Conv2d,
    mixer: Mixer,
    #[module(skip)]
    place: Place,
}

impl Attention {
    pub(super) fn new(init: &Init<'_>, attention: &AttentionConfig, place: Place) -> Self {
        let dim = place.dim();
        Self {
            qkv: init.conv_kaiming_fan_out("qkv", ConvSettings::pointwise(dim, 3 * dim)),
            proj: init.conv_kaiming_fan_out("proj", ConvSettings::pointwise(dim, dim)),
            mixer: attention.init(&place, &init.child("mixer")),
            place,
        }
    }

    /// The mixed tokens, before the last projection.
    ///
    /// # Shapes
    ///
    /// `[batch, tokens, dim]` to the same shape.
    pub(super) fn mix(&self, x: Tensor<3>, pass: Pass<'_>) -> Tensor<3> {
        let qkv = self.qkv.forward_tokens(x);
        pass.attend(&self.mixer, &self.place, qkv)
    }

    /// The last projection, added to a residual if there is one.
    pub(super) fn project(&self, mixed: Tensor<3>, residual: Option<Residual<3>>) -> Tensor<3> {
        plus(self.proj.forward_tokens(mixed), residual)
    }
}
