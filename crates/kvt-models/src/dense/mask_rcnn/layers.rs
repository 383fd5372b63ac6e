//! Layers with mmdetection's initial values, and tensors of what the host has chosen.

use burn::module::{Module, Param};
use burn::nn::Linear;
use burn::tensor::{Device, Int, Tensor, TensorData};
use kvt_attention::{Law, ParamInit};

use crate::layers::{Conv2d, ConvSettings, Init};

/// mmcv's `ConvModule` without a norm and an activation: a convolution with a bias that keeps the size of a map.
#[derive(Module, Debug)]
pub(super) struct BareConv {
    conv: Conv2d,
}

impl BareConv {
    /// Xavier-uniform weights, zero bias.
    pub(super) fn xavier(init: &Init<'_>, channels: [usize; 2], kernel: usize) -> Self {
        let settings = ConvSettings::centred(channels, kernel, 1);
        let init = init.child("conv");
        let area = kernel * kernel;
        let bound = xavier_bound(channels.map(|channels| channels * area));
        let weight = init.uniform("weight", settings.shape(), bound);
        let bias = zeros(&init, settings.out_channels);
        Self {
            conv: Conv2d::new(weight, Some(bias), settings),
        }
    }

    /// Kaiming-normal weights for the fan-out, zero bias.
    pub(super) fn kaiming(init: &Init<'_>, channels: [usize; 2], kernel: usize) -> Self {
        let settings = ConvSettings::centred(channels, kernel, 1);
        Self {
            conv: init.conv_kaiming_fan_out("conv", settings),
        }
    }

    /// In the type of `x`.
    ///
    /// # Shapes
    ///
    /// `[batch, inputs, height, width]` to `[batch, outputs, height, width]`.
    pub(super) fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        self.conv.forward(x)
    }
}

/// A linear layer with Xavier-uniform weights and zero bias.
pub(super) fn linear_xavier(init: &Init<'_>, name: &str, sizes: [usize; 2]) -> Linear {
    let init = init.child(name);
    Linear {
        weight: init.uniform("weight", sizes, xavier_bound(sizes)),
        bias: Some(zeros(&init, sizes[1])),
    }
}

/// A linear layer with normal weights of a standard deviation and zero bias.
pub(super) fn linear_normal(init: &Init<'_>, name: &str, sizes: [usize; 2], std: f32) -> Linear {
    let init = init.child(name);
    Linear {
        weight: init.normal("weight", sizes, std),
        bias: Some(zeros(&init, sizes[1])),
    }
}

/// A bias of zeros.
pub(super) fn zeros(init: &Init<'_>, count: usize) -> Param<Tensor<1>> {
    init.param("bias", [count], Law::Constant(0.0))
}

/// The bound of Xavier-uniform weights, by the inputs and the outputs that a weight of each belongs to.
fn xavier_bound([inputs, outputs]: [usize; 2]) -> f32 {
    (6.0 / (inputs + outputs) as f32).sqrt()
}

/// Numbers of the host on a device; there must be as many as the shape has.
pub(super) fn floats<const D: usize>(
    values: Vec<f32>,
    shape: [usize; D],
    device: &Device,
) -> Tensor<D> {
    Tensor::from_data(TensorData::new(values, shape), device)
}

/// Places along a dimension on a device.
pub(super) fn places(values: &[usize], device: &Device) -> Tensor<1, Int> {
    let values: Vec<i64> = values.iter().map(|place| *place as i64).collect();
    let count = values.len();
    Tensor::from_data(TensorData::new(values, [count]), device)
}
