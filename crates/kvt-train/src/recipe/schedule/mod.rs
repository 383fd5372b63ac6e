//! Learning rate and weight decay: pure functions of the step, so that resuming cannot shift them.

mod config;

use std::f64::consts::PI;

use crate::config::Plan;

pub use config::{ScheduleConfig, ScheduleCounts, ScheduleKind, SchedulePer};

/// Linear warm-up, then a curve until the end of the run, then the end value of the curve (timm's schedulers, with one cycle):
///
/// ```text
/// f(t) = warmup_lr + t (lr - warmup_lr) / w                       t < w
/// f(t) = warmup_lr + t (lr - warmup_lr) / (w - 1)                 t < w, with warmup_closed
/// f(t) = min_lr + (lr - min_lr) / 2 (1 + cos(pi t / total))       cosine
/// f(t) = min_lr + (lr - min_lr) (1 - t / total)^power             poly; linear has the power 1
/// f(t) = lr * step_rate^floor(t / step)                           step
/// f(t) = lr * step_rate^(drops with step_at <= t)                 step, with step_at
/// f(t) = lr                                                       constant
/// ```
///
/// With `warmup_updates = u`, there is no other warm-up, and the rate of an update `n < u`, from 0, is multiplied by
/// `1 - (1 - n / u) (1 - warmup_ratio)`, whatever the curve counts (mmcv's `LrUpdaterHook`).
///
/// From `total` on, cosine, poly and linear stay at `min_lr`. With `warmup_prefix`, the curve uses `t - w` for `t` and
/// `total - w` for `total`: it begins after the warm-up and still ends with the run, as in Swin. `t` is defined by
/// [`ScheduleCounts`], in epochs or updates.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    config: ScheduleConfig,
    lr: f64,
    steps_per_epoch: u64,
    epochs: u32,
    /// The length of the curve in updates, if the run is measured in them.
    updates: Option<u64>,
}

impl Schedule {
    /// `lr` is the rate after warm-up, already scaled by the batch size. `epochs` do not include the cool-down.
    pub fn new(config: ScheduleConfig, lr: f64, steps_per_epoch: u64, epochs: u32) -> Self {
        Self {
            config,
            lr,
            steps_per_epoch,
            epochs,
            updates: None,
        }
    }

    /// The schedule of a plan.
    pub fn of(plan: &Plan, steps_per_epoch: u64) -> Self {
        let images = plan.train.batch_size * plan.train.accumulate;
        let lr = scaled_lr(plan.optim.lr, plan.optim.lr_batch, images);
        let config = plan.schedule.clone();
        Self {
            updates: plan.updates(),
            ..Self::new(config, lr, steps_per_epoch, plan.train.epochs)
        }
    }

    /// The learning rate of an update: `step` counts the updates done before it, `epoch` is its epoch, both from 0.
    pub fn lr(&self, step: u64, epoch: u32) -> f64 {
        let (updates, ratio) = (self.config.warmup_updates, self.config.warmup_ratio);
        let curve = self.curve(step, epoch);
        if step >= updates {
            return curve;
        }
        curve * (1.0 - (1.0 - step as f64 / updates as f64) * (1.0 - ratio))
    }

    /// The rate without the warm-up that multiplies it.
    fn curve(&self, step: u64, epoch: u32) -> f64 {
        let config = &self.config;
        let t = self.place(step, epoch);
        let total = self.total();
        let [warmup, step] = [config.warmup_epochs, config.step_epochs].map(|x| x * self.unit());
        if t < warmup {
            // The order of operations matters: another one would change the last bit of old runs' rates.
            return if config.warmup_closed {
                linspace(config.warmup_lr, self.lr, t, warmup)
            } else {
                config.warmup_lr + t * (self.lr - config.warmup_lr) / warmup
            };
        }
        let (t, total) = if config.warmup_prefix {
            (t - warmup, total - warmup)
        } else {
            (t, total)
        };
        let poly =
            |power: f64| config.min_lr + (self.lr - config.min_lr) * (1.0 - t / total).powf(power);
        match config.kind {
            ScheduleKind::Constant => self.lr,
            ScheduleKind::Step if config.step_at.is_empty() => {
                self.lr * config.step_rate.powf((t / step).floor())
            }
            ScheduleKind::Step => {
                let drops = config.step_at.iter().filter(|at| **at * self.unit() <= t);
                self.lr * config.step_rate.powf(drops.count() as f64)
            }
            _ if t >= total => config.min_lr,
            // The order of operations matters: another one would change the last bit of old runs' rates.
            ScheduleKind::Cosine => half_cosine(self.lr, config.min_lr, PI * t / total),
            ScheduleKind::Linear => poly(1.0),
            ScheduleKind::Poly => poly(config.power),
        }
    }

    /// The weight decay of an update, which is `start` at the beginning of the run.
    pub fn weight_decay(&self, start: f64, step: u64, epoch: u32) -> f64 {
        match self.config.weight_decay_end {
            None => start,
            Some(end) => cosine(start, end, self.place(step, epoch) / self.total()),
        }
    }

    /// The position of an update on the curve.
    fn place(&self, step: u64, epoch: u32) -> f64 {
        let started = match self.config.per {
            SchedulePer::Step => step,
            SchedulePer::Epoch => u64::from(epoch),
        };
        match self.config.counts {
            ScheduleCounts::Started => started as f64,
            ScheduleCounts::Finished => started.saturating_sub(1) as f64,
        }
    }

    /// The end of the curve, in its units.
    fn total(&self) -> f64 {
        match (self.updates, self.config.per) {
            (None, _) => f64::from(self.epochs) * self.unit(),
            (Some(updates), SchedulePer::Step) => updates as f64,
            (Some(updates), SchedulePer::Epoch) => updates as f64 / self.steps_per_epoch as f64,
        }
    }

    /// The length of an epoch in units of the curve: updates or epochs.
    fn unit(&self) -> f64 {
        match self.config.per {
            SchedulePer::Step => self.steps_per_epoch as f64,
            SchedulePer::Epoch => 1.0,
        }
    }
}

/// Step `t` of `steps` steps on a line from `from` to `to`, both ends included; a single step is `from`: `numpy.linspace`.
pub fn linspace(from: f64, to: f64, t: f64, steps: f64) -> f64 {
    let share = if steps > 1.0 {
        (t / (steps - 1.0)).min(1.0)
    } else {
        0.0
    };
    from + (to - from) * share
}

/// Half a cosine from `from` to `to`, at a fraction of the way: for rates, weight decays and the momentum of a teacher.
/// Below 0 it is `from`, above 1 `to`.
pub fn cosine(from: f64, to: f64, share: f64) -> f64 {
    half_cosine(from, to, PI * share.clamp(0.0, 1.0))
}

fn half_cosine(from: f64, to: f64, phase: f64) -> f64 {
    to + 0.5 * (from - to) * (1.0 + phase.cos())
}

/// The learning rate after warm-up, `lr * images / lr_batch`: proportional to the images per update, and unscaled if
/// `lr_batch` is 0.
pub fn scaled_lr(lr: f64, lr_batch: usize, images: usize) -> f64 {
    match lr_batch {
        0 => lr,
        batch => lr * images as f64 / batch as f64,
    }
}

#[cfg(test)]
mod tests;
