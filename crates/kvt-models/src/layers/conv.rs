//! A convolution on images with PyTorch's parameters.

use burn::module::{Module, Param};
use burn::tensor::module::conv2d as burn_conv2d;
use burn::tensor::ops::ConvOptions;
use burn::tensor::{Device, Tensor};
use kvt_ops::{contiguous_gradient, conv2d, in_type, linear_with};

/// A two-dimensional convolution with square kernels.
#[derive(Module, Debug)]
pub struct Conv2d {
    /// `[out_channels, in_channels / groups, kernel, kernel]`.
    pub weight: Param<Tensor<4>>,
    /// `[out_channels]`.
    pub bias: Option<Param<Tensor<1>>>,
    #[module(skip)]
    settings: ConvSettings,
}

/// How a convolution moves over an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvSettings {
    /// Channels of the input.
    pub in_channels: usize,
    /// Channels of the output.
    pub out_channels: usize,
    /// Side of the kernel in pixels.
    pub kernel: usize,
    /// Pixels from one position to the next.
    pub stride: usize,
    /// Pixels of zeros around the image.
    pub padding: usize,
    /// Groups of channels that do not mix.
    pub groups: usize,
    /// Whether there is a bias.
    pub bias: bool,
}

impl ConvSettings {
    /// With a bias, and a kernel equal to the stride: from patches to tokens.
    pub fn patches(in_channels: usize, out_channels: usize, patch_size: usize) -> Self {
        Self {
            in_channels,
            out_channels,
            kernel: patch_size,
            stride: patch_size,
            padding: 0,
            groups: 1,
            bias: true,
        }
    }

    /// Single pixels, without a bias.
    pub fn pointwise(in_channels: usize, out_channels: usize) -> Self {
        Self::patches(in_channels, out_channels, 1).without_bias()
    }

    /// The same with so many pixels from one position to the next, and so many of zeros around the image.
    #[must_use]
    pub(crate) fn moving(self, stride: usize, padding: usize) -> Self {
        Self {
            stride,
            padding,
            ..self
        }
    }

    /// A convolution from channels to channels, padded by half of its kernel, whose side is odd: at a stride of 1 a map keeps its size.
    pub(crate) fn centred(channels: [usize; 2], kernel: usize, stride: usize) -> Self {
        let [in_channels, out_channels] = channels;
        Self::patches(in_channels, out_channels, kernel).moving(stride, kernel / 2)
    }

    /// The same with groups of channels that do not mix.
    #[must_use]
    pub(crate) fn in_groups(self, groups: usize) -> Self {
        Self { groups, ..self }
    }

    /// The same without a bias.
    #[must_use]
    pub(crate) fn without_bias(self) -> Self {
        Self {
            bias: false,
            ..self
        }
    }

    /// Trainable parameters.
    pub fn params(&self) -> usize {
        let bias = if self.bias { self.out_channels } else { 0 };
        self.out_channels * self.fan_in() + bias
    }

    /// Shape of the weight: `[out_channels, in_channels / groups, kernel, kernel]`.
    pub(crate) fn shape(&self) -> [usize; 4] {
        let inputs = self.in_channels / self.groups.max(1);
        [self.out_channels, inputs, self.kernel, self.kernel]
    }

    /// Inputs of one output.
    pub fn fan_in(&self) -> usize {
        self.in_channels / self.groups.max(1) * self.kernel.pow(2)
    }

    /// Multiply-accumulate operations on an image with sides of `size` pixels.
    pub fn macs(&self, size: usize) -> usize {
        let outputs = self.output_size(size).pow(2) * self.out_channels;
        outputs.saturating_mul(self.fan_in())
    }

    /// Side of the output of an image with sides of `size` pixels; 0 if the kernel does not fit.
    pub fn output_size(&self, size: usize) -> usize {
        let room = (size + 2 * self.padding).checked_sub(self.kernel);
        room.map_or(0, |room| room / self.stride.max(1) + 1)
    }
}

impl Conv2d {
    /// Assembles the layer from its parameters.
    pub fn new(
        weight: Param<Tensor<4>>,
        bias: Option<Param<Tensor<1>>>,
        settings: ConvSettings,
    ) -> Self {
        Self {
            weight,
            bias,
            settings,
        }
    }

    /// How the convolution moves over an image.
    pub fn settings(&self) -> ConvSettings {
        self.settings
    }

    /// The convolution, in the type of `x`.
    ///
    /// # Shapes
    ///
    /// `[batch, in_channels, height, width]` to `[batch, out_channels, rows, columns]`.
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let ConvSettings {
            in_channels,
            kernel,
            stride,
            padding,
            groups,
            ..
        } = self.settings;
        let bias = self.bias.as_ref().map(Param::val);
        let bias = bias.map(|bias| in_type(bias, x.dtype()));
        let weight = in_type(self.weight.val(), x.dtype());
        let depthwise = groups == in_channels && groups > 1;
        let patches = kernel == stride && kernel > 1 && padding == 0;
        // GPUs and patches keep Burn's convolution, so that their results do not change by a bit.
        if !depthwise && (patches || x.device() != Device::flex()) {
            let options = ConvOptions::new([stride; 2], [padding; 2], [1, 1], groups);
            return contiguous_gradient(burn_conv2d(x, weight, bias, options));
        }
        if !depthwise {
            return conv2d(x, weight, bias, stride, padding, groups);
        }
        let out = contiguous_gradient(conv2d(x, weight, None, stride, padding, groups));
        match bias {
            Some(bias) => out + bias.reshape([1, -1, 1, 1]),
            None => out,
        }
    }

    /// The same for tokens: each token is a pixel. The convolution must be [pointwise](ConvSettings::pointwise),
    /// which makes it a linear layer.
    ///
    /// # Shapes
    ///
    /// `[batch, tokens, in_channels]` to `[batch, tokens, out_channels]`.
    pub fn forward_tokens(&self, x: Tensor<3>) -> Tensor<3> {
        let [outputs, inputs, ..] = self.weight.dims();
        let weight = self.weight.val().reshape([outputs, inputs]).transpose();
        linear_with(x, weight, self.bias.as_ref().map(Param::val))
    }
}

#[cfg(test)]
mod tests {
    use kvt_ops::Key;

    use super::*;
    use crate::layers::{Init, to_tokens};

    #[test]
    fn pointwise_convolutions_of_tokens_and_maps_agree() {
        let device = Device::flex();
        for bias in [false, true] {
            let settings = ConvSettings {
                bias,
                ..ConvSettings::pointwise(5, 3)
            };
            let conv = Init::new(&device, Key::new(1)).conv("conv", settings);
            let map = Tensor::arange(0..2 * 5 * 4 * 3, &device).float();
            let map = (map * 0.37).sin().reshape([2, 5, 4, 3]);
            let expected = to_tokens(conv.forward(map.clone()));
            let tokens = conv.forward_tokens(to_tokens(map));
            let difference = (tokens - expected).abs().max().into_scalar::<f32>();
            assert!(difference < 1e-5, "{difference}");
        }
    }
}
