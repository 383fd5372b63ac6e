//! Sizes of the network, and the rules by which it trains and finds objects: the section `[detect]` of a configuration.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::dense::WindowPadding;
use crate::error::ModelError;
use crate::family::validate;

/// Boxes and masks of objects by Mask R-CNN (He et al., 2017, <https://arxiv.org/abs/1703.06870>) on a backbone with four stages,
/// with `task = "detect"`. The defaults are those of Swin on COCO.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MaskRcnnConfig {
    /// Classes of an object, which are those of the data. The background is not one of them.
    #[serde(skip)]
    pub num_classes: usize,
    /// Channels of the feature pyramid and of the heads.
    #[schemars(extend("x-range" = "[1, 65536]"))]
    pub channels: usize,
    /// Numbers of the hidden layers of the head that classifies and refines boxes.
    #[schemars(extend("x-range" = "[1, 65536]"))]
    pub hidden: usize,
    /// Whether queries see the padding of windows that reach over the border of a map.
    pub window_padding: WindowPadding,
    /// Anchors of an image that the network of proposals is trained on.
    #[schemars(extend("x-range" = "[1, 1048576]"))]
    pub anchors: usize,
    /// Largest share of them with an object.
    #[schemars(extend("x-range" = "[0, 1]"))]
    pub anchors_fraction: f64,
    /// Regions of an image that the heads are trained on.
    #[schemars(extend("x-range" = "[1, 1048576]"))]
    pub regions: usize,
    /// Largest share of them with an object.
    #[schemars(extend("x-range" = "[0, 1]"))]
    pub regions_fraction: f64,
    /// Training: best anchors of each level, before those that overlap go.
    #[schemars(extend("x-range" = "[1, 1048576]"))]
    pub train_per_level: usize,
    /// Training: proposals of an image.
    #[schemars(extend("x-range" = "[1, 1048576]"))]
    pub train_proposals: usize,
    /// Evaluation: best anchors of each level, before those that overlap go.
    #[schemars(extend("x-range" = "[1, 1048576]"))]
    pub test_per_level: usize,
    /// Evaluation: proposals of an image.
    #[schemars(extend("x-range" = "[1, 1048576]"))]
    pub test_proposals: usize,
    /// The probability of its class that a detection exceeds.
    #[schemars(extend("x-range" = "[0, 1]"))]
    pub score: f64,
    /// A detection goes if its overlap with a better one of its class is greater: intersection over union.
    #[schemars(extend("x-range" = "[0, 1]"))]
    pub iou: f64,
    /// Detections of an image, at most. Average precision counts the best 100.
    #[schemars(extend("x-range" = "[1, 1048576]"))]
    pub detections: usize,
}

impl Default for MaskRcnnConfig {
    fn default() -> Self {
        Self {
            num_classes: 80,
            channels: 256,
            hidden: 1024,
            window_padding: WindowPadding::Seen,
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
    /// The same for so many classes.
    #[must_use]
    pub fn with_classes(&self, classes: usize) -> Self {
        Self {
            num_classes: classes,
            ..self.clone()
        }
    }

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
            ("score", self.score),
            ("iou", self.iou),
            ("anchors_fraction", self.anchors_fraction),
            ("regions_fraction", self.regions_fraction),
        ];
        shares.into_iter().try_for_each(|(field, share)| {
            let is_within = (0.0..=1.0).contains(&share);
            validate::within(field, share, is_within, "from 0 to 1")
        })
    }
}
