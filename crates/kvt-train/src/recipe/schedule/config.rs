//! `[schedule]`: the settings of the schedules.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use kvt_data::schema::section;

section! {
    /// The learning rate and the weight decay over the run.
    pub struct ScheduleConfig {
        /// Shape of the learning rate after the warm-up.
        pub kind: ScheduleKind = ScheduleKind::Cosine;
        /// Epochs of linear warm-up; parts of an epoch are allowed.
        pub warmup_epochs: f64 = 5.0, "x-range" = "[0, inf)";
        /// Updates of a linear warm-up that multiplies the curve, instead of one to its full rate: that of MMSegmentation; 0 is off.
        pub warmup_updates: u64 = 0;
        /// Share of the curve at the start of these updates.
        pub warmup_ratio: f64 = 1e-6, "x-range" = "(0, 1]";
        /// Learning rate at the start of the warm-up, not scaled by the batch.
        pub warmup_lr: f64 = 1e-6, "x-range" = "[0, 1e30]";
        /// Whether the curve begins after the warm-up, and not under it.
        pub warmup_prefix: bool = false;
        /// Whether the last step of the warm-up has the full learning rate already, as with DINO, and not the first one after it.
        pub warmup_closed: bool = false;
        /// Learning rate at the end of `cosine`, `linear` and `poly`, not scaled by the batch.
        pub min_lr: f64 = 1e-5, "x-range" = "[0, 1e30]";
        /// Epochs at the end of the curve, after `train.epochs`.
        pub cooldown_epochs: u32 = 0, "x-range" = "[0, 1000000]";
        /// Epochs from one drop of `step` to the next; parts of an epoch are allowed.
        pub step_epochs: f64 = 30.0, "x-range" = "[1e-3, inf)";
        /// Epochs after which `step` drops, in place of every `step_epochs`: `[27, 33]` in mmdetection's 36 epochs.
        pub step_at: Vec<f64> = Vec::new(), "x-range" = "[1e-3, inf)";
        /// Factor of the learning rate at each drop of `step`.
        pub step_rate: f64 = 0.1, "x-range" = "(0, 1]";
        /// Exponent of `poly`.
        pub power: f64 = 0.5, "x-range" = "(0, 100]";
        /// How often the learning rate changes.
        pub per: SchedulePer = SchedulePer::Epoch;
        /// What the schedule counts: epochs (or updates) that have started, or finished ones. Number `n`, from 0, has the rate at
        /// the place `n` of the curve, or at `max(n - 1, 0)`. DeiT's training loop counts finished epochs.
        pub counts: ScheduleCounts = ScheduleCounts::Finished,
            "x-default" = "`\"finished\"` per epoch, `\"started\"` per step";
        /// Weight decay at the end of `train.epochs`, reached from `optim.weight_decay` by half a cosine.
        pub weight_decay_end: Option<f64> = None, "x-range" = "[0, 1e30]", "x-default" = "none: it stays";
    }
}

/// Shape of the learning rate after the warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ScheduleKind {
    /// Half a cosine from `optim.lr` to `schedule.min_lr`.
    Cosine,
    /// A line from `optim.lr` to `schedule.min_lr`.
    Linear,
    /// Times `schedule.step_rate` every `schedule.step_epochs`, or after each of `schedule.step_at`.
    Step,
    /// A power of what is left of the run, from `optim.lr` to `schedule.min_lr`.
    Poly,
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

impl SchedulePer {
    /// The default of [`ScheduleConfig::counts`].
    pub(crate) fn counts(self) -> ScheduleCounts {
        match self {
            Self::Epoch => ScheduleCounts::Finished,
            Self::Step => ScheduleCounts::Started,
        }
    }
}

/// How the place of an epoch, or an update, on the curve is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ScheduleCounts {
    /// Number `n`, from 0, has the rate `f(max(n - 1, 0))`: the scheduler is stepped with the number of what has just
    /// finished, as DeiT, Visformer and Twins do per epoch and Swin per update.
    Finished,
    /// Number `n` has the rate `f(n)`: the scheduler is stepped with the number of what starts, as T2T-ViT, TNT, So-ViT,
    /// VOLO and CvT do per epoch and timm per update.
    Started,
}
