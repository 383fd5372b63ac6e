//! The head that outlines the object of a region (He et al., 2017): one mask for each class.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::activation::relu;
use kvt_ops::{in_type, linear_with, widened};

use super::layers::{BareConv, zeros};
use crate::dense::numbered::numbered;
use crate::layers::{Conv2d, ConvSettings, Init};
use crate::precision::Precision;

/// Bins of a region along each side, before the map is doubled.
pub(super) const BINS: usize = 14;
/// Side of a mask.
pub const MASK_SIDE: usize = 2 * BINS;
/// Convolutions before the map is doubled.
pub(super) const CONVS: usize = 4;

/// mmdetection's `FCNMaskHead`; fields have the names of its parameters.
#[derive(Module, Debug)]
pub struct MaskHead {
    convs: Vec<BareConv>,
    upsample: Doubling,
    conv_logits: Conv2d,
}

/// A transposed convolution of 2 x 2 pixels with a stride of 2. Its windows do not overlap, so it is a linear layer from a pixel
/// to four.
#[derive(Module, Debug)]
pub(super) struct Doubling {
    /// `[in_channels, out_channels, 2, 2]`, as PyTorch's.
    pub(super) weight: Param<Tensor<4>>,
    /// `[out_channels]`.
    pub(super) bias: Param<Tensor<1>>,
}

impl Doubling {
    /// Kaiming-normal weights, zero bias.
    pub(super) fn new(init: &Init<'_>, [inputs, outputs]: [usize; 2]) -> Self {
        // PyTorch takes the first two dimensions for outputs and inputs, which here are inputs and outputs.
        let fan_out = 4 * inputs;
        let std = (2.0 / fan_out as f32).sqrt();
        Self {
            weight: init.normal("weight", [inputs, outputs, 2, 2], std),
            bias: zeros(init, outputs),
        }
    }

    /// In the type of `x`.
    ///
    /// # Shapes
    ///
    /// `[batch, in_channels, height, width]` to `[batch, out_channels, 2 height, 2 width]`.
    pub(super) fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let [batch, inputs, height, width] = x.dims();
        let outputs = self.weight.dims()[1];
        let pixels = x.permute([0, 2, 3, 1]);
        let pixels = pixels.reshape([batch * height * width, inputs]);
        let weight = self.weight.val().reshape([inputs, outputs * 4]);
        let quads = linear_with(pixels, weight, None);
        let quads = quads.reshape([batch, height, width, outputs, 2, 2]);
        // Rows of pixels and of a window become rows of the map; columns likewise.
        let map = quads.permute([0, 3, 1, 4, 2, 5]);
        let map = map.reshape([batch, outputs, 2 * height, 2 * width]);
        let bias = in_type(self.bias.val(), map.dtype());
        map + bias.reshape([1, outputs, 1, 1])
    }
}

impl MaskHead {
    /// A head for regions of `channels`.
    pub(super) fn new(init: &Init<'_>, channels: usize, classes: usize) -> Self {
        let logits = ConvSettings::centred([channels, classes], 1, 1);
        Self {
            convs: numbered(
                &init.child("convs"),
                &[channels; CONVS],
                |init, channels| BareConv::kaiming(init, [channels, channels], 3),
            ),
            upsample: Doubling::new(&init.child("upsample"), [channels, channels]),
            conv_logits: init.conv_kaiming_fan_out("conv_logits", logits),
        }
    }

    /// The logits of the masks, f32; products are in the given precision.
    ///
    /// # Shapes
    ///
    /// Regions `[regions, channels, 14, 14]` in f32 to `[regions, classes, 28, 28]`.
    ///
    /// # Panics
    ///
    /// If regions have other channels.
    pub fn forward(&self, regions: Tensor<4>, precision: Precision) -> Tensor<4> {
        let convs = self.convs.iter();
        let x = convs.fold(precision.lower(regions), |x, conv| relu(conv.forward(x)));
        let x = relu(self.upsample.forward(x));
        widened(self.conv_logits.forward(x))
    }
}
