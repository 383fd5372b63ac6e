//! `[detect]`: the settings of detection.

use kvt_data::schema::section;
use kvt_models::dense::WindowPadding;
use kvt_models::dense::mask_rcnn::MaskRcnnConfig;

section! {
    /// Boxes and masks of objects by Mask R-CNN (He et al., 2017, <https://arxiv.org/abs/1703.06870>) on a backbone with four stages,
    /// with `task = "detect"`. The defaults are those of Swin on COCO.
    pub struct DetectConfig {
        /// Channels of the feature pyramid and of the heads.
        pub channels: usize = 256, "x-range" = "[1, 65536]";
        /// Numbers of the hidden layers of the head that classifies and refines boxes.
        pub hidden: usize = 1024, "x-range" = "[1, 65536]";
        /// Whether queries see the padding of windows that reach over the border of a map.
        pub window_padding: WindowPadding = WindowPadding::Seen;
        /// Anchors of an image that the network of proposals is trained on.
        pub anchors: usize = 256, "x-range" = "[1, 1048576]";
        /// Largest share of them with an object.
        pub anchors_fraction: f64 = 0.5, "x-range" = "[0, 1]";
        /// Regions of an image that the heads are trained on.
        pub regions: usize = 512, "x-range" = "[1, 1048576]";
        /// Largest share of them with an object.
        pub regions_fraction: f64 = 0.25, "x-range" = "[0, 1]";
        /// Training: best anchors of each level, before those that overlap go.
        pub train_per_level: usize = 2000, "x-range" = "[1, 1048576]";
        /// Training: proposals of an image.
        pub train_proposals: usize = 1000, "x-range" = "[1, 1048576]";
        /// Evaluation: best anchors of each level, before those that overlap go.
        pub test_per_level: usize = 1000, "x-range" = "[1, 1048576]";
        /// Evaluation: proposals of an image.
        pub test_proposals: usize = 1000, "x-range" = "[1, 1048576]";
        /// The probability of its class that a detection exceeds.
        pub score: f64 = 0.05, "x-range" = "[0, 1]";
        /// A detection goes if its overlap with a better one of its class is greater: intersection over union.
        pub iou: f64 = 0.5, "x-range" = "[0, 1]";
        /// Detections of an image, at most. Average precision counts the best 100.
        pub detections: usize = 100, "x-range" = "[1, 1048576]";
    }
}

impl DetectConfig {
    /// Sizes and rules of a network for objects of so many classes.
    #[must_use]
    pub fn network(&self, classes: usize) -> MaskRcnnConfig {
        MaskRcnnConfig {
            num_classes: classes,
            channels: self.channels,
            hidden: self.hidden,
            anchors: self.anchors,
            anchors_fraction: self.anchors_fraction,
            regions: self.regions,
            regions_fraction: self.regions_fraction,
            train_per_level: self.train_per_level,
            train_proposals: self.train_proposals,
            test_per_level: self.test_per_level,
            test_proposals: self.test_proposals,
            score: self.score as f32,
            iou: self.iou as f32,
            detections: self.detections,
        }
    }
}
