//! Sizes of the network, and the rules by which it trains and finds objects.

use crate::dense::boxes::{ProposalRule, Sampler};
use crate::error::ModelError;
use crate::family::validate;

/// The sizes and rules of a Mask R-CNN. The defaults are those of Swin's and Twins' recipes on COCO.
#[derive(Clone, Debug, PartialEq)]
pub struct MaskRcnnConfig {
    /// Classes of an object: 80. The background is not one of them.
    pub num_classes: usize,
    /// Channels of the pyramid and the heads: 256.
    pub channels: usize,
    /// Numbers of the hidden layers of the box head: 1024.
    pub hidden: usize,
    /// Anchors of an image that are trained on: 256, at most half of them with an object.
    pub anchors: Sampler,
    /// Regions of an image that are trained on: 512, at most a quarter of them with an object.
    pub regions: Sampler,
    /// Proposals of an image in training: 2000 of each level before overlapping ones go, 1000 in all.
    pub train: ProposalRule,
    /// Proposals of an image in testing: 1000 of each level before overlapping ones go, 1000 in all.
    pub test: ProposalRule,
    /// The probability that a detection must exceed: 0.05.
    pub score: f32,
    /// A detection goes if its IoU with a better one of its class is greater than this: 0.5.
    pub iou: f32,
    /// Detections of an image, at most: 100.
    pub detections: usize,
}

impl Default for MaskRcnnConfig {
    fn default() -> Self {
        Self {
            num_classes: 80,
            channels: 256,
            hidden: 1024,
            anchors: Sampler::RPN,
            regions: Sampler::ROI,
            train: ProposalRule::TRAIN,
            test: ProposalRule::EVAL,
            score: 0.05,
            iou: 0.5,
            detections: 100,
        }
    }
}

impl MaskRcnnConfig {
    /// Refuses sizes and counts of 0 or implausibly large ones, and shares, probabilities and overlaps outside of `[0, 1]`.
    ///
    /// # Errors
    ///
    /// [`ModelError::OutOfRange`].
    pub fn validate(&self) -> Result<(), ModelError> {
        let sizes = [
            ("num_classes", self.num_classes),
            ("channels", self.channels),
            ("hidden", self.hidden),
            ("anchors", self.anchors.count),
            ("regions", self.regions.count),
            ("train", self.train.per_level.min(self.train.count)),
            ("test", self.test.per_level.min(self.test.count)),
            ("detections", self.detections),
        ];
        validate::sizes(&sizes)?;
        let shares = [
            ("train", self.train.iou),
            ("test", self.test.iou),
            ("score", self.score),
            ("iou", self.iou),
        ];
        let shares = shares.map(|(field, share)| (field, f64::from(share)));
        let fractions = [
            ("anchors", self.anchors.fraction),
            ("regions", self.regions.fraction),
        ];
        let mut all = shares.into_iter().chain(fractions);
        all.try_for_each(|(field, share)| {
            let is_within = (0.0..=1.0).contains(&share);
            validate::within(field, share, is_within, "from 0 to 1")
        })
    }
}
