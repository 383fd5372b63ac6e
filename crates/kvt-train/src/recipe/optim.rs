//! `[optim]`: the settings of the optimizer.

use crate::schema::section;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

section! {
    /// From gradients to an update.
    pub struct OptimConfig {
        /// The optimizer.
        pub name: OptimName = OptimName::Adamw;
        /// Base learning rate.
        pub lr: f64 = 5e-4, "x-range" = "(0, 1e30]";
        /// The learning rate is `lr * images per update / lr_batch`; 0 leaves `lr` as it is.
        pub lr_batch: usize = 512;
        /// Decay of the first and second moment.
        pub betas: [f64; 2] = [0.9, 0.999], "x-range" = "[0, 1)";
        /// Added to the denominator of the update.
        pub eps: f64 = 1e-8, "x-range" = "[1e-30, 1e30]";
        /// Decoupled weight decay; biases and other one-dimensional parameters have none.
        pub weight_decay: f64 = 0.05, "x-range" = "[0, 1e30]";
        /// Largest global norm of the gradients; 0 does not clip.
        pub clip_norm: f64 = 0.0, "x-range" = "[0, inf)";
    }
}

/// The optimizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OptimName {
    /// Adam with decoupled weight decay.
    Adamw,
}
