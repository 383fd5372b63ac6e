//! The training recipe: everything between a batch of logits and new weights.
//!
//! `logits -> loss -> gradients -> accumulate -> clip -> optimizer -> ema`, with a learning rate from a schedule that
//! is a pure function of the step.

mod clip;
mod distill;
mod ema;
mod gradients;
mod loss;
mod loss_scale;
pub mod mix;
mod optim;
mod position;
mod schedule;

use kvt_models::{Network, Parameter};

pub use clip::Clip;
pub use distill::{
    DistillConfig, DistillDivisor, DistillKind, hard_distillation, soft_distillation,
};
pub use ema::{Ema, EmaConfig, EmaReport};
pub(crate) use gradients::flat;
pub use gradients::{Accumulator, Gradients};
pub use loss::{
    ClassWeights, LossConfig, LossHeads, LossKind, binary_cross_entropy, cross_entropy,
    mixed_targets, weighted_targets,
};
pub use loss_scale::LossScale;
pub(crate) use optim::Counts;
pub use optim::{OptimConfig, OptimDecay, OptimName, Optimizer, OptimizerError, Rates};
pub use position::Position;
pub use schedule::{
    Schedule, ScheduleConfig, ScheduleCounts, ScheduleKind, SchedulePer, cosine, linspace,
    scaled_lr,
};

/// Whether a parameter belongs to the head: the last of several layers.
fn is_head(network: &impl Network, parameter: &Parameter) -> bool {
    let layers = network.layers();
    layers > 1 && network.layer(parameter) + 1 == layers
}
