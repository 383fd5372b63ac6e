//! How far a run has come: everything that resuming needs besides weights and moments.

use kvt_data::text::counted;
use serde::{Deserialize, Serialize};

use crate::recipe::Position;

/// The best evaluation so far.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// Its epoch, from 0.
    pub epoch: u32,
    /// Optimizer updates before it. Checkpoints of kvt 0.1.0 lack it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// The value of the task's metric, [`Task::BEST`](crate::task::Task::BEST). Checkpoints from before tasks existed call it
    /// `top1`, which is a classifier's metric.
    #[serde(alias = "top1")]
    pub value: f64,
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
    /// Seconds of these spent waiting for data; checkpoints of older versions lack it.
    #[serde(default)]
    pub data_wait: f64,
    /// Seconds of these spent on communication with other processes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub communication: f64,
    /// Learning rate of the last update.
    pub lr: f64,
}

/// Sums over the updates since the last logged step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LogSums {
    /// Updates.
    pub updates: u64,
    /// Updates of these that were not made, since gradients of a scaled loss were not finite.
    #[serde(default)]
    pub unmade: u64,
    /// Loss of each update.
    pub loss: f64,
    /// Gradient norm of each update that was made.
    pub grad_norm: f64,
    /// Images trained on.
    pub images: u64,
    /// Seconds of training.
    pub seconds: f64,
    /// Seconds of these spent waiting for data.
    pub data_wait: f64,
    /// Seconds of these spent on communication with other processes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub communication: f64,
}

/// Whether a process was alone; checkpoints omit the field then.
fn is_zero(seconds: &f64) -> bool {
    *seconds == 0.0
}

impl LogSums {
    /// Adds the sums of later updates.
    pub fn add(&mut self, later: Self) {
        self.updates += later.updates;
        self.unmade += later.unmade;
        self.loss += later.loss;
        self.grad_norm += later.grad_norm;
        self.images += later.images;
        self.seconds += later.seconds;
        self.data_wait += later.data_wait;
        self.communication += later.communication;
    }
}

/// The state of a run besides its tensors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Where training continues.
    pub position: Position,
    /// The best evaluation so far.
    pub best: Option<Best>,
    /// Evaluations since then.
    #[serde(default)]
    pub stale: u32,
    /// The running epoch.
    pub sums: EpochSums,
    /// The sums for the next logged step.
    #[serde(default)]
    pub log: LogSums,
    /// Whether the updates of an epoch (or of the run) are done, but not the work that follows them.
    #[serde(default)]
    pub concluding: bool,
    /// Whether the warning that the device waits for images was given since this start.
    #[serde(skip)]
    pub told_input_bound: bool,
    /// Whether the task's warning was given since this start.
    #[serde(skip)]
    pub told_collapse: bool,
    /// Whether it was said since this start that `train.patience` is over.
    #[serde(skip)]
    pub told_stale: bool,
}

impl Progress {
    /// Whether as many evaluations in a row as `train.patience` did not improve: the run ends.
    pub fn is_stale(&self, patience: Option<u32>) -> bool {
        patience.is_some_and(|most| self.stale >= most)
    }

    /// Why a run that [is stale](Self::is_stale) ends; `metric` is what it looks at, in words.
    pub fn why_stale(&self, metric: &str) -> String {
        let best = self.best;
        let best = best.map_or_else(String::new, |best| format!(", of epoch {}", best.epoch + 1));
        let evaluations = counted(self.stale, "evaluation");
        format!("by `train.patience`: no {metric} of {evaluations} was better than the best{best}")
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// As written by classifiers before tasks existed, and by kvt 0.1.0 before that.
    #[test]
    fn the_best_of_older_versions_is_read() {
        for (text, step) in [
            (r#"{"epoch": 2, "step": 8, "top1": 12.5}"#, Some(8)),
            (r#"{"epoch": 2, "top1": 12.5}"#, None),
        ] {
            let best: Best = serde_json::from_str(text).unwrap();
            let expected = Best {
                epoch: 2,
                step,
                value: 12.5,
            };
            assert_eq!(best, expected);
            let again = serde_json::to_string(&best).unwrap();
            assert_eq!(serde_json::from_str::<Best>(&again).unwrap(), expected);
        }
    }
}
