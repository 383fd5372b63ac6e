//! `[loss]`: the training loss.

use kvt_data::schema::section;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ClassWeights;

section! {
    /// What training minimises.
    pub struct LossConfig {
        /// Cross-entropy, or the binary cross-entropy of each class by itself.
        pub kind: LossKind = LossKind::CrossEntropy;
        /// Weight of the loss of the tokens. It is added to the loss of the image, and both have the image's target. Only for models
        /// with an output for every token: VOLO, whose authors take 0.5 and label maps, which kvt lacks. With 0 the only loss is
        /// that of the logits with which the model predicts.
        pub token_weight: f64 = 0.0, "x-range" = "[0, inf)";
        /// Share of the target that is spread over all classes.
        pub label_smoothing: f64 = 0.1, "x-range" = "[0, 1)";
        /// How much the images of a class count: all the same, by the `inverse` of their number, or a weight for each class in their order. With
        /// cross-entropy only, as PyTorch's `CrossEntropyLoss(weight=...)`.
        pub class_weights: ClassWeights = ClassWeights::None;
        /// Targets above this become 1, all others 0, after smoothing and mixing; only with `bce`.
        pub bce_threshold: Option<f64> = None, "x-range" = "[0, 1)", "x-default" = "none: soft targets";
        /// Whether the loss is summed over the classes, not their mean; only with `bce`.
        pub bce_sum: bool = false;
        /// What learns in a distilled model without a teacher: the mean of both heads, as in newer timm, or the class head
        /// alone, as in DeiT. Without effect on models with one head, and with a teacher.
        pub heads: LossHeads = LossHeads::Mean;
    }
}

/// The function that is minimised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LossKind {
    /// Of a softmax over all classes.
    CrossEntropy,
    /// Of a sigmoid per class.
    Bce,
}

/// Which heads of a distilled model learn without a teacher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LossHeads {
    /// The mean of both.
    Mean,
    /// The class head.
    Class,
}
