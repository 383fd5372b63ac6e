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
//! - [`config`]: TOML layers become one validated [`config::Plan`]; [`schema`]: what its keys may be.
//! - [`data`], [`augment`]: image folders, decoding, the loader, upload; what is done to each image.
//! - [`recipe`]: loss, optimizer, schedule, clipping, accuracy.
//! - [`task`]: what is trained and how it is judged: classification, self-supervised training by DINO.
//! - [`analysis`]: what happens in the layers of a model, and which patches speak for a class.
//! - [`probe`]: how much the features of a backbone say of the classes.
//! - [`engine`]: the loop, one update, checkpoints, resume.
//! - [`finetune`]: a plan for one's own images, from a folder and weights.
//! - [`judge`]: how a classifier errs, class by class.
//! - [`preview`]: a plan's learning rates and augmented images as pictures, before it trains.
//! - [`average`]: the mean of the weights of several files.
//! - [`run`], [`report`]: a run's folder and its logs; tables and plots.
//! - [`reproduce`]: figures and tables of papers, computed anew.
//! - [`mod@bench`]: how long an attention operation or a training step takes.
//! - [`sweep`]: many runs as one job, and what they come to together.
//! - [`device`]: device names.
//! - [`world`]: the processes of a job.
//! - [`error`]: what can stop a run.
//! - [`fs`], [`text`]: files that are written whole or not at all; text that people hand over.
//! - [`cli`]: the `kvt` binary, the only part that prints.

pub mod analysis;
pub mod augment;
pub mod average;
pub mod bench;
pub mod cli;
pub mod config;
pub mod data;
pub mod device;
pub mod engine;
pub mod error;
pub mod fetch;
pub mod finetune;
pub mod fs;
pub mod judge;
pub mod preview;
pub mod probe;
pub mod recipe;
pub mod report;
pub mod reproduce;
pub mod run;
pub mod schema;
pub mod sweep;
pub mod task;
pub mod text;
pub mod world;
