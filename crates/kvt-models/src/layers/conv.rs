//! A convolution on images with PyTorch's parameters.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::module::conv2d;
use burn::tensor::ops::ConvOptions;
use kvt_ops::{contiguous_gradient, depthwise_conv2d};

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
    /// With a bias, and a kernel that is the stride: from patches to tokens.
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

    /// Trainable parameters.
    pub fn params(&self) -> usize {
        let bias = if self.bias { self.out_channels } else { 0 };
        self.out_channels * self.fan_in() + bias
    }

    /// Of the weight: `[out_channels, in_channels / groups, kernel, kernel]`.
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

    /// Side of the output of an image with sides of `size` pixels; 0 where the kernel does not fit.
    pub fn output_size(&self, size: usize) -> usize {
        let room = (size + 2 * self.padding).checked_sub(self.kernel);
        room.map_or(0, |room| room / self.stride.max(1) + 1)
    }
}

impl Conv2d {
    /// Puts the layer together from its parameters.
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

    /// How it moves over the image.
    pub fn settings(&self) -> ConvSettings {
        self.settings
    }

    /// # Shapes
    ///
    /// `[batch, in_channels, height, width]` to `[batch, out_channels, rows, columns]`.
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let ConvSettings {
            in_channels,
            stride,
            padding,
            groups,
            ..
        } = self.settings;
        let (weight, bias) = (self.weight.val(), self.bias.as_ref().map(Param::val));
        if groups == in_channels && groups > 1 {
            let out = contiguous_gradient(depthwise_conv2d(x, weight, stride, padding));
            return match bias {
                Some(bias) => out + bias.reshape([1, -1, 1, 1]),
                None => out,
            };
        }
        let options = ConvOptions::new([stride; 2], [padding; 2], [1, 1], groups);
        contiguous_gradient(conv2d(x, weight, bias, options))
    }
}
