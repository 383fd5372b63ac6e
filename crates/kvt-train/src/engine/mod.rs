//! The training loop and what it stands on, readable in one sitting:
//!
//! - [`Trainer`]: epochs, updates, evaluation, checkpoints. Its file is the loop.
//! - [`TrainState`]: what an update changes, and the update itself.
//! - [`Session`]: a validated plan becomes a run folder, data, a network and a trainer.

mod checkpoint;
mod config;
mod dump;
mod model;
mod progress;
mod recorder;
mod session;
mod trainer;
mod update;

pub use crate::error::TrainError;
pub use checkpoint::{CheckpointWeights, Checkpointer, Restored, load_checkpoint_model};
pub use config::{EvalConfig, Freeze, InitConfig, ResetHead, TrainConfig};
pub use model::{HeadReset, build_model, check_classes, model_config, start_from};
pub use progress::{Best, EpochSums, LogSums, Progress};
pub use recorder::Recorder;
pub use session::{Session, Start, Workload, load_plan};
pub use trainer::{End, Trainer};
pub use update::{TrainState, Update, UpdateError, UpdateSettings};
