//! The learning rate: a pure function of the step, so that a resume cannot shift it.

use crate::config::{ScheduleKind, SchedulePer, SchedulePlan};

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
    plan: SchedulePlan,
    lr: f64,
    steps_per_epoch: u64,
    epochs: u32,
}

impl Schedule {
    /// `lr` is the rate after warm-up, already scaled by the batch size.
    pub fn new(plan: SchedulePlan, lr: f64, steps_per_epoch: u64, epochs: u32) -> Self {
        Self {
            plan,
            lr,
            steps_per_epoch,
            epochs,
        }
    }

    /// The rate of an update: `step` counts the updates done before it, `epoch` is its epoch, both
    /// from 0.
    pub fn lr(&self, step: u64, epoch: u32) -> f64 {
        let epochs = f64::from(self.epochs);
        match self.plan.per {
            SchedulePer::Step => {
                let per_epoch = self.steps_per_epoch as f64;
                let warmup = self.plan.warmup_epochs * per_epoch;
                self.curve(step as f64, warmup, epochs * per_epoch)
            }
            SchedulePer::Epoch => {
                let finished = f64::from(epoch.saturating_sub(1));
                self.curve(finished, self.plan.warmup_epochs, epochs)
            }
        }
    }

    fn curve(&self, t: f64, warmup: f64, total: f64) -> f64 {
        let SchedulePlan {
            warmup_lr, min_lr, ..
        } = self.plan;
        if t < warmup {
            return warmup_lr + t * (self.lr - warmup_lr) / warmup;
        }
        match self.plan.kind {
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
