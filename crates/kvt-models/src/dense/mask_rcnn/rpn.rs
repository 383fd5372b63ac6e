//! The head of the region proposal network (Ren et al., 2015), the same for every level of the pyramid.

use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::activation::relu;
use kvt_ops::widened;

use crate::dense::boxes::ANCHORS_PER_CELL;
use crate::layers::{Conv2d, ConvSettings, Init};
use crate::precision::Precision;

/// Numbers of a box.
pub(super) const DELTAS: usize = 4;
/// The standard deviation of all weights.
const STD: f32 = 0.01;

/// mmdetection's `RPNHead`; fields have the names of its parameters.
#[derive(Module, Debug)]
pub struct RpnHead {
    rpn_conv: Conv2d,
    rpn_cls: Conv2d,
    rpn_reg: Conv2d,
}

/// What the head says of all anchors of images, level by level, row by row, anchor by anchor, f32.
#[derive(Clone, Debug)]
pub struct RpnOutput {
    /// `[batch, anchors]`.
    pub logits: Tensor<2>,
    /// `[batch, anchors, 4]`.
    pub deltas: Tensor<3>,
    /// Height and width of each level.
    pub sizes: Vec<[usize; 2]>,
}

impl RpnHead {
    /// A head for levels of these channels.
    pub(super) fn new(init: &Init<'_>, channels: usize) -> Self {
        let conv = |name: &str, outputs: usize, kernel: usize| {
            let settings = ConvSettings::centred([channels, outputs], kernel, 1);
            init.conv_with_std(name, settings, STD)
        };
        Self {
            rpn_conv: conv("rpn_conv", channels, 3),
            rpn_cls: conv("rpn_cls", ANCHORS_PER_CELL, 1),
            rpn_reg: conv("rpn_reg", ANCHORS_PER_CELL * DELTAS, 1),
        }
    }

    /// What the head says of the anchors of one level, f32: the logits for showing an object, `[batch, 3, height, width]`, and the
    /// deltas from an anchor to its object, `[batch, 12, height, width]`: `x, y, width, height` of the first anchor, then of the
    /// second and the third. Products are in the given precision.
    ///
    /// # Shapes
    ///
    /// A level `[batch, channels, height, width]` in f32.
    pub fn level(&self, level: Tensor<4>, precision: Precision) -> [Tensor<4>; 2] {
        let x = relu(self.rpn_conv.forward(precision.lower(level)));
        [
            widened(self.rpn_cls.forward(x.clone())),
            widened(self.rpn_reg.forward(x)),
        ]
    }

    /// The logits and deltas of all levels.
    ///
    /// # Panics
    ///
    /// If there are no levels, or levels of other channels.
    pub fn forward(&self, levels: &[Tensor<4>], precision: Precision) -> RpnOutput {
        let levels = levels.iter();
        RpnOutput::of(levels.map(|level| self.level(level.clone(), precision)))
    }
}

impl RpnOutput {
    /// The logits and deltas of levels in one list, in the order of the anchors.
    pub(super) fn of(levels: impl Iterator<Item = [Tensor<4>; 2]>) -> Self {
        let (mut logits, mut deltas, mut sizes) = (Vec::new(), Vec::new(), Vec::new());
        for of_level in levels {
            let [batch, anchors, height, width] = of_level[0].dims();
            let count = anchors * height * width;
            let [of_logits, of_deltas] = of_level.map(|map| map.permute([0, 2, 3, 1]));
            logits.push(of_logits.reshape([batch, count]));
            deltas.push(of_deltas.reshape([batch, count, DELTAS]));
            sizes.push([height, width]);
        }
        Self {
            logits: Tensor::cat(logits, 1),
            deltas: Tensor::cat(deltas, 1),
            sizes,
        }
    }
}
