//! The training loop and the parts it builds on:
//!
//! - [`Trainer`]: epochs, updates, evaluation, checkpoints. Its file is the loop.
//! - [`TrainState`]: the state that updates change, and the update itself.
//! - [`Session`]: a validated plan becomes a run folder, data, a network and a trainer.

mod checkpoint;
mod config;
mod dump;
mod eta;
mod processes;
mod progress;
mod reader;
mod recorder;
mod session;
mod share;
mod trainer;
mod untrained;
mod update;

pub use crate::error::TrainError;
pub use checkpoint::{Checkpointer, Saved};
pub use config::{EvalConfig, TrainConfig};
pub use eta::Eta;
pub use processes::Processes;
pub use progress::{Best, EpochSums, LogSums, Progress};
pub use reader::Reader;
pub use recorder::Recorder;
pub use session::{Session, Start, Workload};
pub use trainer::{End, Late, Trainer};
pub use update::{Pending, Started, TrainState, Update, UpdateError, UpdateSettings};
