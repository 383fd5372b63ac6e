//! The auxiliary head, which only trains: a convolution and a classifier on one map.

use burn::module::Module;
use burn::tensor::Tensor;
use kvt_ops::Phase;

use super::UperNetConfig;
use super::layers::{classify, conv_module, conv_seg};
use crate::layers::{Conv2d, ConvNorm, Init};
use crate::precision::Precision;

/// mmsegmentation's `FCNHead` with one convolution and without concatenation; fields have the names of its parameters.
#[derive(Module, Debug)]
pub struct FcnHead {
    convs: Vec<ConvNorm>,
    conv_seg: Conv2d,
    #[module(skip)]
    dropout: f64,
}

impl FcnHead {
    /// A head for a map of `inputs` channels.
    pub(super) fn new(init: &Init<'_>, inputs: usize, config: &UperNetConfig) -> Self {
        let width = config.aux_channels;
        let conv = conv_module(&init.child("convs").child("0"), [inputs, width], 3);
        Self {
            convs: vec![conv],
            conv_seg: conv_seg(init, width, config.num_classes),
            dropout: config.dropout,
        }
    }

    /// The logits at the size of the map, f32; products are in the given precision.
    ///
    /// # Shapes
    ///
    /// `[batch, channels, height, width]` in f32 to `[batch, num_classes, height, width]`.
    pub fn forward(&self, map: Tensor<4>, precision: Precision, phase: Phase) -> Tensor<4> {
        let lowered = precision.lower(map);
        let convs = self.convs.iter();
        let x = convs.fold(lowered, |x, conv| conv.forward(x, phase));
        classify(&self.conv_seg, x, self.dropout, phase)
    }
}
