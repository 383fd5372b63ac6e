//! The training recipe: everything between a batch of logits and new weights.
//!
//! `logits -> loss -> gradients -> accumulate -> clip -> optimizer -> ema`, with the learning rate from
//! a schedule that is a pure function of the step.

mod accuracy;
mod adamw;
mod ema;
mod gradients;
mod loss;
mod network;
mod optim;
mod position;
mod schedule;

pub use accuracy::{Correct, correct};
pub use adamw::{AdamW, AdamWConfig, AdamWError};
pub use ema::{Ema, EmaConfig};
pub(crate) use gradients::flat;
pub use gradients::{Accumulator, Gradients};
pub use loss::{LossConfig, cross_entropy, smooth_targets};
pub use network::Network;
pub use optim::{OptimConfig, OptimName};
pub use position::Position;
pub use schedule::{Schedule, ScheduleConfig, ScheduleKind, SchedulePer, scaled_lr};
