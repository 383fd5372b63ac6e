//! The learning rate: a pure function of the step, so that a resume cannot shift it.

use crate::schema::section;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

section! {
    /// The learning rate over the run.
    pub struct ScheduleConfig {
        /// Shape of the learning rate after the warm-up.
        pub kind: ScheduleKind = ScheduleKind::Cosine;
        /// Epochs of linear warm-up; parts of an epoch are allowed.
        pub warmup_epochs: f64 = 5.0, "x-range" = "[0, inf)";
        /// Learning rate at the start of the warm-up, not scaled by the batch.
        pub warmup_lr: f64 = 1e-6, "x-range" = "[0, 1e30]";
        /// Learning rate at the end, not scaled by the batch.
        pub min_lr: f64 = 1e-5, "x-range" = "[0, 1e30]";
        /// How often the learning rate changes.
        pub per: SchedulePer = SchedulePer::Epoch;
    }
}

/// Shape of the learning rate after the warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ScheduleKind {
    /// Half a cosine from `optim.lr` to `schedule.min_lr`.
    Cosine,
    /// Stays at `optim.lr`.
    Constant,
}

/// How often the learning rate changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SchedulePer {
    /// At the start of each epoch.
    Epoch,
    /// At each optimizer update.
    Step,
}

/// Linear warm-up, then cosine decay (timm's `CosineLRScheduler` without warm-up prefix):
///
/// `f(t) = warmup_lr + t (lr - warmup_lr) / w` for `t < w`, else
/// `min_lr + (lr - min_lr) / 2 (1 + cos(pi t / total))`
///
/// Per step, `t` is the number of updates done. Per epoch, DeiT's habit is kept: its scheduler is
/// stepped with the epoch just *finished*, so epoch `e` trains at `f(max(e - 1, 0))`, and the first
/// two epochs both run at `warmup_lr`.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    config: ScheduleConfig,
    lr: f64,
    steps_per_epoch: u64,
    epochs: u32,
}

impl Schedule {
    /// `lr` is the rate after warm-up, already scaled by the batch size.
    pub fn new(config: ScheduleConfig, lr: f64, steps_per_epoch: u64, epochs: u32) -> Self {
        Self {
            config,
            lr,
            steps_per_epoch,
            epochs,
        }
    }

    /// The rate of an update: `step` counts the updates done before it, `epoch` is its epoch, both
    /// from 0.
    pub fn lr(&self, step: u64, epoch: u32) -> f64 {
        let epochs = f64::from(self.epochs);
        match self.config.per {
            SchedulePer::Step => {
                let per_epoch = self.steps_per_epoch as f64;
                let warmup = self.config.warmup_epochs * per_epoch;
                self.curve(step as f64, warmup, epochs * per_epoch)
            }
            SchedulePer::Epoch => {
                let finished = f64::from(epoch.saturating_sub(1));
                self.curve(finished, self.config.warmup_epochs, epochs)
            }
        }
    }

    fn curve(&self, t: f64, warmup: f64, total: f64) -> f64 {
        let ScheduleConfig {
            warmup_lr, min_lr, ..
        } = self.config;
        if t < warmup {
            return warmup_lr + t * (self.lr - warmup_lr) / warmup;
        }
        match self.config.kind {
            ScheduleKind::Constant => self.lr,
            ScheduleKind::Cosine if t >= total => min_lr,
            ScheduleKind::Cosine => {
                let phase = std::f64::consts::PI * t / total;
                min_lr + 0.5 * (self.lr - min_lr) * (1.0 + phase.cos())
            }
        }
    }
}

/// The learning rate after warm-up, `lr * images / lr_batch`: proportional to the images of an update, and as it is where
/// `lr_batch` is 0.
pub fn scaled_lr(lr: f64, lr_batch: usize, images: usize) -> f64 {
    match lr_batch {
        0 => lr,
        batch => lr * images as f64 / batch as f64,
    }
}
