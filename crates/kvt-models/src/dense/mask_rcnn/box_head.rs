//! The head that classifies regions and refines their boxes.

use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::Tensor;
use burn::tensor::activation::relu;
use kvt_ops::{linear, widened};

use super::layers::{linear_normal, linear_xavier};
use super::rpn::DELTAS;
use crate::layers::Init;
use crate::precision::Precision;

/// Bins of a region along each side.
pub(super) const BINS: usize = 7;
/// The standard deviation of the weights that give logits.
const CLASS_STD: f32 = 0.01;
/// The standard deviation of the weights that give deltas.
const BOX_STD: f32 = 0.001;

/// mmdetection's `Shared2FCBBoxHead`; fields have the names of its parameters.
#[derive(Module, Debug)]
pub struct BoxHead {
    shared_fcs: Vec<Linear>,
    fc_cls: Linear,
    fc_reg: Linear,
}

/// What the head says of regions, f32.
#[derive(Clone, Debug)]
pub struct BoxOutput {
    /// The logits of the classes, `[regions, classes + 1]`: the last is the background.
    pub logits: Tensor<2>,
    /// The deltas from a region to an object of each class, `[regions, classes, 4]`.
    pub deltas: Tensor<3>,
}

impl BoxHead {
    /// A head for regions of `channels`, with layers of `hidden` numbers.
    pub(super) fn new(init: &Init<'_>, channels: usize, hidden: usize, classes: usize) -> Self {
        let shared = init.child("shared_fcs");
        let flat = channels * BINS * BINS;
        Self {
            shared_fcs: vec![
                linear_xavier(&shared, "0", [flat, hidden]),
                linear_xavier(&shared, "1", [hidden, hidden]),
            ],
            fc_cls: linear_normal(init, "fc_cls", [hidden, classes + 1], CLASS_STD),
            fc_reg: linear_normal(init, "fc_reg", [hidden, DELTAS * classes], BOX_STD),
        }
    }

    /// The classes and boxes of regions. Products are in the given precision.
    ///
    /// # Shapes
    ///
    /// Regions `[regions, channels, 7, 7]` in f32.
    ///
    /// # Panics
    ///
    /// If regions have other channels or bins.
    pub fn forward(&self, regions: Tensor<4>, precision: Precision) -> BoxOutput {
        let [count, channels, rows, columns] = regions.dims();
        let flat = regions.reshape([count, channels * rows * columns]);
        let shared = self.shared_fcs.iter();
        let x = shared.fold(precision.lower(flat), |x, layer| relu(linear(layer, x)));
        let logits = widened(linear(&self.fc_cls, x.clone()));
        let deltas = widened(linear(&self.fc_reg, x));
        let classes = deltas.dims()[1] / DELTAS;
        BoxOutput {
            logits,
            deltas: deltas.reshape([count, classes, DELTAS]),
        }
    }
}
