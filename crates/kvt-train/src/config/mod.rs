//! From TOML files to one validated plan.
//!
//! Two stages, as ripgrep treats its flags. First, [`Document::load`] reads a file and its bases and the `--set` overrides,
//! merges them and checks names and types; each value keeps its place, so that a mistake in a base is reported there.
//! Then [`Document::plan`] checks ranges, fills in defaults and gives a [`Plan`], the only form that the trainer reads.
//! Both report every problem they find, not just the first.
//!
//! [`resolved_toml`] writes a plan back, [`diff`] tells whether a run may be resumed with another one, and
//! [`schema`] and [`reference()`] describe the keys from their doc comments.

mod choices;
mod diff;
mod document;
mod fields;
mod layers;
mod plan;
mod problem;
mod raw;
mod resolved;
mod validate;

pub use choices::{
    AugmentPreset, ClassOrderSetting, ImplementationSetting, InterpolationSetting, OptimName,
    ScheduleKind, SchedulePer, SelectionSetting,
};
pub use diff::{Difference, Effect, diff};
pub use document::Document;
pub use fields::{reference, schema};
pub use plan::{
    AttentionKind, AttentionPlan, AugmentPlan, CheckpointPlan, DataKind, DataPlan, EmaPlan,
    EvalPlan, InitPlan, LogPlan, LossPlan, ModelPlan, NeighborsSetting, OnErrorSetting, OptimPlan,
    Plan, RunPlan, SchedulePlan, ShapesPlan, TrainPlan, Workers,
};
pub use problem::{ConfigError, Place, Problem};
pub use resolved::resolved_toml;

#[cfg(test)]
mod tests;
