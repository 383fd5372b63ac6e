//! The convolutions of the heads, and the classification of every pixel.

use burn::tensor::Tensor;
use kvt_ops::{Phase, in_type, widened};

use crate::layers::{Conv2d, ConvNorm, ConvSettings, Init, drop_path};

/// The standard deviation of the weights that give logits.
const STD: f32 = 0.01;

/// A convolution that keeps the size of a map, without a bias, and its norm: Kaiming-normal weights for the fan-out.
pub(super) fn conv_module(init: &Init<'_>, channels: [usize; 2], kernel: usize) -> ConvNorm {
    let settings = ConvSettings::centred(channels, kernel, 1).without_bias();
    ConvNorm::new(init, init.conv_kaiming_fan_out("conv", settings))
}

/// The convolution that gives logits: normal weights, zero bias.
pub(super) fn conv_seg(init: &Init<'_>, channels: usize, classes: usize) -> Conv2d {
    let settings = ConvSettings::patches(channels, classes, 1);
    init.conv_with_std("conv_seg", settings, STD)
}

/// The logits of every pixel, f32: dropout of whole channels of an image (`Dropout2d`), then [`conv_seg`].
pub(super) fn classify(conv: &Conv2d, x: Tensor<4>, dropout: f64, phase: Phase) -> Tensor<4> {
    let [batch, channels, ..] = x.dims();
    let phase = phase.named("dropout");
    let x = match drop_path(dropout, phase, batch * channels, &x.device()) {
        Some(scale) => {
            let scale = in_type(scale, x.dtype());
            x * scale.reshape([batch, channels, 1, 1])
        }
        None => x,
    };
    widened(conv.forward(x))
}
