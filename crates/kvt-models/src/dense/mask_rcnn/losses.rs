//! The five losses, from what the host has chosen.

use burn::tensor::activation::{log_softmax, softplus};
use burn::tensor::{Device, Tensor};

use super::box_head::BoxOutput;
use super::layers::{floats, places};
use super::rpn::{DELTAS, RpnOutput};
use super::targets::{AnchorTargets, RegionTargets};
use crate::dense::boxes::Deltas;

/// The losses of a batch. They count alike.
#[derive(Clone, Debug)]
pub struct DetectLosses {
    /// Each of them, `[1]`, f32:
    /// - the binary cross-entropy of the sampled anchors: object or not,
    /// - absolute differences of the deltas of the positive anchors, divided by the number of all sampled ones,
    /// - the cross-entropy of the classes of the sampled regions,
    /// - absolute differences of the deltas of the positive regions, of their own class, divided by the number of all sampled ones,
    /// - the binary cross-entropy of the masks of the positive regions, of their own class: the mean over their pixels.
    pub all: [Tensor<1>; 5],
}

impl DetectLosses {
    /// The names of the losses, in the order of [`all`](Self::all).
    pub const NAMES: [&'static str; 5] = ["rpn_class", "rpn_box", "class", "box", "mask"];

    /// What training makes small: the sum of the losses.
    #[must_use]
    pub fn total(&self) -> Tensor<1> {
        let [rpn_class, rpn_box, class, boxes, mask] = self.all.clone();
        rpn_class + rpn_box + class + boxes + mask
    }
}

/// The losses of the proposals: of classes and of boxes.
pub(super) fn of_anchors(output: &RpnOutput, targets: &AnchorTargets) -> [Tensor<1>; 2] {
    let device = output.logits.device();
    let [batch, anchors] = output.logits.dims();
    let (positive, negative) = (&targets.positive, &targets.negative);
    let divisor = targets.divisor.max(1) as f64;
    let sampled = [positive.as_slice(), negative.as_slice()].concat();
    let class = if sampled.is_empty() {
        nothing(&device)
    } else {
        let logits = output.logits.clone().reshape([batch * anchors]);
        let logits = logits.select(0, places(&sampled, &device));
        let inside = (0..sampled.len()).map(|at| at < positive.len());
        binary(logits, inside).sum() / divisor
    };
    let boxes = of_boxes(&output.deltas, positive, &targets.deltas, divisor);
    [class, boxes]
}

/// The losses of the sampled regions: of classes and of boxes.
pub(super) fn of_regions(output: &BoxOutput, targets: &RegionTargets) -> [Tensor<1>; 2] {
    let [regions, classes, _] = output.deltas.dims();
    let count = regions.max(1) as f64;
    let labels = places(&targets.labels, &output.logits.device()).reshape([regions, 1]);
    let own = log_softmax(output.logits.clone(), 1).gather(1, labels);
    let class = own.sum() / -count;
    let rows: Vec<usize> = targets.of_class(classes).collect();
    [
        class,
        of_boxes(&output.deltas, &rows, &targets.deltas, count),
    ]
}

/// The sum of the absolute differences from these rows of deltas `[.., .., 4]` to their targets, divided.
fn of_boxes(deltas: &Tensor<3>, rows: &[usize], targets: &[Deltas], divisor: f64) -> Tensor<1> {
    let device = deltas.device();
    if rows.is_empty() {
        return nothing(&device);
    }
    let [first, second, _] = deltas.dims();
    let deltas = deltas.clone().reshape([first * second, DELTAS]);
    let deltas = deltas.select(0, places(rows, &device));
    let targets = floats(targets.as_flattened().to_vec(), deltas.dims(), &device);
    (deltas - targets).abs().sum() / divisor
}

/// The loss of the masks of the positive regions, of which there is at least one: logits `[positive, classes, 28, 28]`.
pub(super) fn of_masks(logits: Tensor<4>, targets: &RegionTargets) -> Tensor<1> {
    let device = logits.device();
    let [count, classes, height, width] = logits.dims();
    let labels = targets.positive.iter().map(|at| targets.labels[*at]);
    let rows = labels.enumerate().map(|(row, label)| row * classes + label);
    let rows: Vec<usize> = rows.collect();
    let logits = logits.reshape([count * classes, height * width]);
    let logits = logits.select(0, places(&rows, &device));
    binary(logits, targets.masks.iter().copied()).mean()
}

/// A loss without terms, through which no gradient passes.
pub(super) fn nothing(device: &Device) -> Tensor<1> {
    Tensor::zeros([1], device)
}

/// The binary cross-entropy of each logit, with whether it should be large.
fn binary<const D: usize>(logits: Tensor<D>, inside: impl Iterator<Item = bool>) -> Tensor<D> {
    // -ln(sigmoid(x)) = softplus(-x), and -ln(1 - sigmoid(x)) = softplus(x).
    let signs = inside.map(|inside| if inside { -1.0 } else { 1.0 });
    let signs = floats(signs.collect(), logits.dims(), &logits.device());
    softplus(logits * signs, 1.0)
}
