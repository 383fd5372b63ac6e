//! The training recipe: everything between a batch of logits and new weights.
//!
//! `logits -> loss -> gradients -> accumulate -> clip -> optimizer -> ema`, with the learning rate from
//! a schedule that is a pure function of the step.

mod accuracy;
mod clip;
mod ema;
mod gradients;
mod loss;
mod network;
mod optim;
mod position;
mod schedule;

pub use accuracy::{Correct, correct};
pub use clip::Clip;
pub use ema::{Ema, EmaConfig, EmaReport};
pub use gradients::{Accumulator, Gradients};
pub use loss::{LossConfig, cross_entropy, smooth_targets};
pub use network::Network;
use network::is_head;
pub use optim::{OptimConfig, OptimName, Optimizer, OptimizerError, Rates};
pub use position::Position;
pub use schedule::{
    Schedule, ScheduleConfig, ScheduleCounts, ScheduleKind, SchedulePer, cosine, scaled_lr,
};
