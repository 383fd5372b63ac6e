//! Training and evaluation of vision transformers with dense and k-NN attention.
//!
//! Data flows one way through the modules:
//!
//! ```text
//! config -> engine -> run
//!             ^
//! data -> recipe -> task
//! ```
//!
//! - [`config`]: TOML layers become one validated [`config::Plan`].
//! - [`data`], [`augment`]: the crate `kvt-data`; [`splits`]: the two splits of a plan, and the batches of an epoch.
//! - [`recipe`]: loss, optimizer, schedule, clipping, accuracy.
//! - [`task`]: the training objective and its evaluation: classification, self-supervised training with DINO.
//! - [`analysis`]: measurements in the layers of a model.
//! - [`engine`]: the loop, one update, checkpoints, resume.
//! - [`judge`]: the errors of a classifier, class by class.
//! - [`knn_vote`]: the k-NN classifier on features.
//! - [`plot`]: what pictures share; [`table`]: CSV and Markdown.
//! - [`run`]: a run's folder and its logs.
//! - [`device`]: device names.
//! - [`world`]: the processes of a job.
//! - [`error`]: errors that stop a run.

pub mod analysis;
pub mod config;
pub mod device;
pub mod engine;
pub mod error;
pub mod fetch;
pub mod judge;
pub mod knn_vote;
pub mod plot;
pub mod recipe;
pub mod run;
pub mod splits;
pub mod table;
pub mod task;
pub mod world;

pub use kvt_data as data;
pub use kvt_data::augment;

/// `cargo test` compiles and runs the code of this page.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/burn-parts.md")]
struct BurnParts;
