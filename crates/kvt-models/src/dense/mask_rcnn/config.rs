//! Sizes of the network, and the rules by which it trains and finds objects.

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
    /// Anchors of an image that are trained on: 256.
    pub anchors: usize,
    /// The share of them with an object, at most: a half.
    pub anchors_fraction: f64,
    /// Regions of an image that are trained on: 512.
    pub regions: usize,
    /// The share of them with an object, at most: a quarter.
    pub regions_fraction: f64,
    /// Training: the best anchors of each level before overlapping ones go, 2000.
    pub train_per_level: usize,
    /// Training: proposals of an image, 1000.
    pub train_proposals: usize,
    /// Testing: the best anchors of each level before overlapping ones go, 1000.
    pub test_per_level: usize,
    /// Testing: proposals of an image, 1000.
    pub test_proposals: usize,
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
            anchors: 256,
            anchors_fraction: 0.5,
            regions: 512,
            regions_fraction: 0.25,
            train_per_level: 2000,
            train_proposals: 1000,
            test_per_level: 1000,
            test_proposals: 1000,
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
            ("anchors", self.anchors),
            ("regions", self.regions),
            ("train_per_level", self.train_per_level),
            ("train_proposals", self.train_proposals),
            ("test_per_level", self.test_per_level),
            ("test_proposals", self.test_proposals),
            ("detections", self.detections),
        ];
        validate::sizes(&sizes)?;
        let shares = [
            ("score", self.score.into()),
            ("iou", self.iou.into()),
            ("anchors_fraction", self.anchors_fraction),
            ("regions_fraction", self.regions_fraction),
        ];
        shares.into_iter().try_for_each(|(field, share): (_, f64)| {
            let is_within = (0.0..=1.0).contains(&share);
            validate::within(field, share, is_within, "from 0 to 1")
        })
    }
}
