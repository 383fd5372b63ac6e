//! Why an item was not computed.

use std::io;
use std::path::PathBuf;

use kvt_attention::AttentionError;
use kvt_models::ModelError;

use super::Scale;
use crate::bench::BenchError;
use crate::config::ConfigError;
use crate::error::TrainError;
use crate::sweep::SweepError;

/// Why an item was not computed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReproduceError {
    /// There is no item of a name.
    #[error("there is nothing called `{name}` to reproduce: the names are {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// An item has no such scale.
    #[error("`{name}` {}", no_scale(known))]
    Scale {
        /// The item.
        name: &'static str,
        /// The scales that it has.
        known: &'static [Scale],
    },
    /// Options that change nothing about an item.
    #[error("`{name}` is not made of training runs and does not take {options}")]
    Options {
        /// The item.
        name: &'static str,
        /// The options, as they are written.
        options: String,
    },
    /// An item is not in a version of the paper.
    #[error("`{name}` is not in version `{version}` of the paper")]
    Version {
        /// The item.
        name: &'static str,
        /// The version, as it is named.
        version: &'static str,
    },
    /// There are no runs to list or to train.
    #[error("`{name}` is not made of training runs")]
    NoRuns {
        /// The item.
        name: &'static str,
    },
    /// The file of a sweep is missing.
    #[error(
        "no file `{}`: run the command in kvt's repository, or give its folder of configurations by `--configs`",
        .path.display()
    )]
    NoSweep {
        /// The file.
        path: PathBuf,
    },
    /// Somebody asked to stop.
    #[error("stopped; the same command goes on from here")]
    Stopped,
    /// The runs of an item.
    #[error(transparent)]
    Sweep(#[from] SweepError),
    /// A run, its model or its data.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// The settings that were given.
    #[error(transparent)]
    Config(Box<ConfigError>),
    /// A model's configuration.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Attention refuses its settings or inputs.
    #[error(transparent)]
    Attention(#[from] AttentionError),
    /// A time could not be taken.
    #[error(transparent)]
    Bench(#[from] BenchError),
    /// The picture cannot be drawn.
    #[error("could not draw the figure: {0}")]
    Draw(String),
    /// A file cannot be written; the message names it.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// What is wrong about the scale of an item that has these.
fn no_scale(known: &[Scale]) -> String {
    let names: Vec<String> = known.iter().map(|scale| format!("`{scale}`")).collect();
    match names.as_slice() {
        [] => "takes neither images nor training: leave `--scale` and `--data` out".to_owned(),
        names => format!("wants one of its scales: `--scale` {}", names.join(", ")),
    }
}
