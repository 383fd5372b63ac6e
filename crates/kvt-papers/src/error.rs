//! Why an item was not computed.

use std::io;
use std::path::PathBuf;

use kvt_attention::AttentionError;
use kvt_models::ImgSize;

use super::ITEMS;
use kvt_tools::bench::BenchError;
use kvt_tools::report::ReportError;
use kvt_tools::sweep::SweepError;
use kvt_tools::trained::TrainedError;
use kvt_train::error::TrainError;

/// Why an item was not computed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReproduceError {
    /// No item has this name.
    #[error(
        "there is nothing called `{}` to reproduce: the names are {}",
        .0, quoted(ITEMS.iter().map(|item| item.name))
    )]
    Unknown(String),
    /// The item is asked for what it does not have, or without what it needs.
    #[error("`{name}` {reason}")]
    Refused {
        /// The item.
        name: &'static str,
        /// Which option is wrong, and what it can be.
        reason: String,
    },
    /// The data set is missing.
    #[error(
        "no folder `{}`: `--data` names the folder of the data set that the runs train on",
        .0.display()
    )]
    NoData(PathBuf),
    /// The file of a sweep is missing.
    #[error(
        "no file `{}`: `--configs` names a folder of configurations and sweeps, as `configs` of kvt's repository is",
        .0.display()
    )]
    NoSweep(PathBuf),
    /// The sweep of the item failed, or was stopped.
    #[error(transparent)]
    Sweep(#[from] SweepError),
    /// The given settings are wrong, or a run, its model or its data failed.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// A trained model cannot be judged.
    #[error(transparent)]
    Trained(#[from] TrainedError),
    /// A run cannot be reported on.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// Attention refuses its settings or inputs.
    #[error(transparent)]
    Attention(#[from] AttentionError),
    /// A timing failed.
    #[error(transparent)]
    Bench(#[from] BenchError),
    /// A figure of square images, of a run with others.
    #[error(
        "the figure shows square images, but those of the run are {0}: give one number as `model.img_size`"
    )]
    NotSquare(ImgSize),
    /// The picture cannot be drawn.
    #[error("could not draw the figure: {0}")]
    Draw(String),
    /// A file cannot be written; the message names it.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Names in quotes, with commas between them.
pub(crate) fn quoted<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    names.join(", ")
}
