//! What surrounds the training of a model: plans for a user's own images, many runs as one job, trained models at work, and reports.
//!
//! Nothing here changes how a model is trained: `kvt-train` does not know this crate.
//!
//! - [`finetune`]: a plan for a user's own images, from a folder and weights.
//! - [`preview`]: pictures of a plan's learning rates and augmented images, before it trains.
//! - [`mod@bench`]: timing of attention operations and training steps.
//! - [`sweep`]: many runs as one job, and their combined results.
//! - [`trained`]: a trained model that is ready to predict, and the images that it is judged on.
//! - [`probe`]: how well the features of a backbone predict the classes, and where its tokens look.
//! - [`report`]: tables, plots and a page of runs.
//! - [`average`]: the mean of the weights of several files.
//! - [`paint`]: maps of classes as pictures.

pub mod average;
pub mod bench;
pub mod finetune;
mod groups;
pub mod paint;
pub mod preview;
pub mod probe;
pub mod report;
pub mod sweep;
pub mod trained;

// Events for tests, which are declared where runs are.
#[cfg(test)]
#[path = "../../kvt-train/src/run/testing.rs"]
mod events;
#[cfg(test)]
use kvt_train::run::{EpochRecord, EvalRecord, Event, Metrics};
