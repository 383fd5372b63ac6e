//! The training loop and what it stands on, readable in one sitting:
//!
//! - [`Trainer`]: epochs, steps, evaluation, checkpoints. Its file is the loop.
//! - [`evaluate()`]: the one evaluation path, for training, `kvt eval` and `kvt predict`.
//! - [`Session`]: a validated plan becomes a run folder, data, a model and a trainer.

mod checkpoint;
mod config;
mod error;
mod evaluate;
mod model;
mod progress;
mod recorder;
mod session;
mod splits;
mod trainer;

pub use checkpoint::{Checkpointer, DataState, Restored, Weights, load_checkpoint_model};
pub use config::{EvalConfig, InitConfig, TrainConfig};
pub use error::TrainError;
pub use evaluate::{Evaluation, evaluate, predict_batch};
pub use model::{Head, build_model, check_classes, model_config, start_from};
pub use progress::{Best, EpochSums, LogSums, Position, Progress};
pub use recorder::Recorder;
pub use session::{Amount, Session, Start, load_plan};
pub use splits::{Splits, ensure_data, eval_batches, eval_transform, image_limits};
pub use trainer::{End, Trainer};
