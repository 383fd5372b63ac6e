//! A convolution that is normalised over the batch and rectified.

use burn::module::Module;
use burn::tensor::Tensor;
use kvt_ops::Phase;

use super::{BatchNorm, BatchNormSettings, Conv2d, Init};

/// `relu(norm(conv(x)))`.
#[derive(Module, Debug)]
pub(crate) struct ConvNorm {
    conv: Conv2d,
    norm: BatchNorm,
}

impl ConvNorm {
    pub(crate) fn new(init: &Init<'_>, conv: Conv2d) -> Self {
        let channels = conv.settings().out_channels;
        Self {
            conv,
            norm: init.batch_norm(channels, BatchNormSettings::default()),
        }
    }

    pub(crate) fn forward(&self, map: Tensor<4>, phase: Phase) -> Tensor<4> {
        self.norm.forward_relu(self.conv.forward(map), phase)
    }
}
