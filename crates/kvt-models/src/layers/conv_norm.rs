//! A convolution that is normalised over the batch: mmcv's `ConvModule`.

use burn::module::Module;
use burn::tensor::Tensor;
use kvt_ops::Phase;

use super::{BatchNorm, BatchNormSettings, Conv2d, Init};

/// A convolution and its batch norm, which computes in f32.
#[derive(Module, Debug)]
pub(crate) struct ConvNorm {
    conv: Conv2d,
    bn: BatchNorm,
}

impl ConvNorm {
    /// A norm of unit weight and zero bias after a convolution.
    pub(crate) fn new(init: &Init<'_>, conv: Conv2d) -> Self {
        let channels = conv.settings().out_channels;
        Self {
            conv,
            bn: init.batch_norm(channels, BatchNormSettings::default()),
        }
    }

    /// `relu(bn(conv(x)))`, in the type of `x`.
    ///
    /// # Shapes
    ///
    /// `[batch, inputs, height, width]` to `[batch, outputs, rows, columns]`.
    pub(crate) fn forward(&self, x: Tensor<4>, phase: Phase) -> Tensor<4> {
        self.bn.forward_relu(self.conv.forward(x), phase)
    }

    /// The same without the ReLU.
    pub(crate) fn without_relu(&self, x: Tensor<4>, phase: Phase) -> Tensor<4> {
        self.bn.forward(self.conv.forward(x), phase)
    }
}
