//! Training, evaluation and comparison of vision transformers with dense and k-NN attention.
//!
//! Data flows one way through the modules:
//!
//! ```text
//! config -> engine -> run, report
//!             ^
//! data -> recipe -> task
//! ```
//!
//! - [`config`]: TOML layers become one validated [`config::Plan`].
//! - [`data`], [`augment`]: the crate `kvt-data`; [`splits`]: the two splits of a plan, and the batches of an epoch.
//! - [`recipe`]: loss, optimizer, schedule, clipping, accuracy.
//! - [`task`]: the training objective and its evaluation: classification, self-supervised training with DINO.
//! - [`analysis`]: measurements in the layers of a model.
//! - [`probe`]: how well the features of a backbone predict the classes.
//! - [`engine`]: the loop, one update, checkpoints, resume.
//! - [`finetune`]: a plan for a user's own images, from a folder and weights.
//! - [`judge`]: the errors of a classifier, class by class.
//! - [`preview`]: pictures of a plan's learning rates and augmented images, before it trains.
//! - [`average`]: the mean of the weights of several files.
//! - [`paint`]: maps of classes as pictures.
//! - [`plot`]: what pictures share; [`table`]: CSV and Markdown.
//! - [`run`], [`report`]: a run's folder and its logs; tables and plots.
//! - [`mod@bench`]: timing of attention operations and training steps.
//! - [`sweep`]: many runs as one job, and their combined results.
//! - [`trained`]: a trained model that is ready to predict, and the images that it is judged on.
//! - [`device`]: device names.
//! - [`world`]: the processes of a job.
//! - [`error`]: errors that stop a run.

pub mod analysis;
pub mod average;
pub mod bench;
pub mod config;
pub mod device;
pub mod engine;
pub mod error;
pub mod fetch;
pub mod finetune;
pub mod judge;
pub mod paint;
pub mod plot;
pub mod preview;
pub mod probe;
pub mod recipe;
pub mod report;
pub mod run;
pub mod splits;
pub mod sweep;
pub mod table;
pub mod task;
pub mod trained;
pub mod world;

pub use kvt_data as data;
pub use kvt_data::augment;

/// `cargo test` compiles and runs the code of this page.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/burn-parts.md")]
struct BurnParts;
