//! A run's folder: the files that training leaves on disk, and who may write them.
//!
//! ```text
//! runs/name/
//!   run.lock            pid and host of the process that trains, which holds a lock on the folder itself
//!   config.toml         the resolved configuration
//!   environment.json    versions, machine, device, git, of this start and the earlier ones
//!   classes.txt         class names in label order, one per line
//!   log.jsonl           one line per logged step, evaluation, epoch and note
//!   epochs.csv          one row per finished epoch
//!   layers.csv          one row per layer and analysis, with `analysis.every`
//!   tensorboard/        event files
//!   report.html         its curves and, at its end, its confusion matrix, with `report.auto`
//!   report/             the same as pictures and tables
//!   checkpoints/        step-00001234/ and others, and the pointer files `last` and `best`
//! ```
//!
//! The loop emits [`Event`]s; every writer here is a [`Listener`]. A checkpoint records the length of the log, and a resumed run
//! cuts the log back to that length, so that no step is logged twice.

mod checkpoint;
mod config;
mod environment;
mod epochs;
mod error;
mod events;
mod folder;
mod jsonl;
mod judgement;
mod layers;
mod metrics;
mod number;
mod tables;
mod tensorboard;
#[cfg(test)]
pub(crate) mod testing;

pub use checkpoint::{Checkpoint, Checkpoints, Stage, Which};
pub use config::{CheckpointConfig, LogConfig, ReportConfig, RunConfig};
pub use environment::Environment;
pub use epochs::{EpochRow, EpochRows};
pub use error::RunError;
pub use events::{EpochRecord, EvalRecord, Event, LayerRecord, Listener, Note, StepRecord, Topic};
pub use folder::RunDir;
pub use jsonl::{JsonlLog, Log, read_log};
pub(crate) use judgement::forget_judgement;
pub use judgement::{LINEAR, PREDICTIONS, REPORT, forget_report};
pub use metrics::{Metric, Metrics};
pub use tables::Tables;
pub use tensorboard::TensorBoard;
