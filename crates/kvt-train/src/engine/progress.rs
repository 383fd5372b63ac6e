//! How far a run is: all that a resume needs besides weights and moments.

use serde::{Deserialize, Serialize};

/// A place between two micro-batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// The epoch, from 0.
    pub epoch: u32,
    /// Micro-batches of it already trained on.
    pub batch: usize,
    /// Optimizer updates since the start.
    pub step: u64,
}

/// The best evaluation so far.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// Its epoch, from 0.
    pub epoch: u32,
    /// Its top-1 accuracy in percent.
    pub top1: f64,
}

/// Sums over the updates of the running epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EpochSums {
    /// Loss of each update times its images.
    pub loss: f64,
    /// Images trained on.
    pub images: u64,
    /// Seconds of training.
    pub seconds: f64,
    /// Learning rate of the last update.
    pub lr: f64,
}

/// The state of a run besides its tensors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Where training goes on.
    pub position: Position,
    /// The best evaluation so far.
    pub best: Option<Best>,
    /// The running epoch.
    pub sums: EpochSums,
}
