//! Losses: cross-entropy with soft targets, which is used for label smoothing and mixed images, binary cross-entropy, and
//! token labelling.

mod binary;
mod config;
mod cross_entropy;
mod targets;
mod token_labels;
mod weights;

pub use binary::binary_cross_entropy;
pub use config::{LossConfig, LossHeads, LossKind};
pub use cross_entropy::cross_entropy;
pub use targets::mixed_targets;
pub use weights::{ClassWeights, weighted_targets};

use burn::tensor::Tensor;

impl LossConfig {
    /// The loss of logits `[batch, classes]`; the targets have the same shape, and the result is `[1]`.
    pub fn of(&self, logits: Tensor<2>, targets: Tensor<2>) -> Tensor<1> {
        match self.kind {
            LossKind::CrossEntropy => cross_entropy(logits, targets),
            LossKind::Bce => binary_cross_entropy(logits, targets, self.bce_sum),
        }
    }
}

#[cfg(test)]
mod tests;
