//! `[train]`, `[eval]` and `[init]`: what the loop and its start are told.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::section;

section! {
    /// Length, batch and device of training.
    pub struct TrainConfig {
        /// Times that training goes through the data.
        pub epochs: u32 = 300, "x-range" = "[1, inf)";
        /// Images of one forward pass; an update sees `batch_size * accumulate` images.
        pub batch_size: usize = 64, "x-range" = "[1, 65536]";
        /// Forward passes whose gradients are averaged into one update.
        pub accumulate: usize = 1, "x-range" = "[1, 65536]";
        /// Ends the run after this many updates, wherever that is.
        pub max_steps: Option<u64> = None,
            "x-range" = "[1, inf)", "x-default" = "none: all epochs", "x-resume" = "free";
        /// Device to train on, such as `auto`, `cpu`, `wgpu`, `vulkan:0` or `cuda`; `kvt devices` lists them.
        pub device: String = "auto".to_owned(), "x-resume" = "free";
        /// Epochs from one evaluation to the next; 0 evaluates only at the end.
        pub eval_every: u32 = 1;
    }
}

section! {
    /// Evaluation.
    pub struct EvalConfig {
        /// Images of one forward pass.
        pub batch_size: usize = 2 * TrainConfig::default().batch_size,
            "x-range" = "[1, 131072]", "x-default" = "2 x `train.batch_size`", "x-resume" = "free";
    }
}

section! {
    /// What the weights are before training.
    pub struct InitConfig {
        /// Weights to start from, a `.safetensors`, `.pth`, `.pt` or `.bin` file; relative to the working directory.
        pub weights: Option<PathBuf> = None, "x-default" = "none: random weights";
        /// Whether to leave the classification head as initialised, to train on other classes: `true` where its size differs
        /// from that of the weights, which is an error otherwise, and `"always"` also where it is the same.
        pub reset_head: ResetHead = ResetHead::IfOther(false);
        /// What of the model is not trained, and works as in evaluation.
        pub freeze: Freeze = Freeze::None;
    }
}

/// When training begins with a new classification head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ResetHead {
    /// Always: other classes may be as many.
    Always,
    /// With `true` where its size differs from that of the weights, with `false` never.
    #[serde(untagged)]
    IfOther(bool),
}

/// What of a model stays as its first weights are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Freeze {
    /// Everything is trained.
    None,
    /// Everything but the classification head stays: a linear probe.
    Backbone,
}
