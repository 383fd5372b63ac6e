//! Why an item was not computed.

use std::io;
use std::path::PathBuf;

use kvt_attention::AttentionError;
use kvt_models::{ImgSize, ModelError};

use super::{ITEMS, Scale, Version};
use kvt_tools::bench::BenchError;
use kvt_tools::report::ReportError;
use kvt_tools::sweep::SweepError;
use kvt_tools::trained::TrainedError;
use kvt_train::config::ConfigError;
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
    /// The scale is missing, or the item does not have it.
    #[error("`{name}` {}", no_scale(known, *given))]
    Scale {
        /// The item.
        name: &'static str,
        /// The scales that it has.
        known: &'static [Scale],
        /// The requested scale.
        given: Option<Scale>,
    },
    /// The item is not affected by these options.
    #[error("`{name}` is not made of training runs and does not take {options}")]
    Options {
        /// The item.
        name: &'static str,
        /// The options as written on the command line.
        options: String,
    },
    /// The item has no such part.
    #[error(
        "`{name}` has no part `{given}` to train alone: {}",
        known_parts(parts)
    )]
    Part {
        /// The item.
        name: &'static str,
        /// The parts that it has.
        parts: &'static [&'static str],
        /// The requested part.
        given: String,
    },
    /// One data set for parts that train on different ones.
    #[error(
        "the parts of `{name}` train on different data sets: `--only` names the one that `--data` is for, {}",
        quoted(parts.iter().copied())
    )]
    DataOfParts {
        /// The item.
        name: &'static str,
        /// Its parts.
        parts: &'static [&'static str],
    },
    /// The item needs more of its runs than a table has.
    #[error(
        "`{0}` shows more of its runs than the numbers of a table: it needs the runs themselves, without `--known`"
    )]
    Unknowable(&'static str),
    /// The data set is missing.
    #[error(
        "no folder `{}`: `--data` names the folder of the data set that the runs train on",
        .0.display()
    )]
    NoData(PathBuf),
    /// The item is not in this version of the paper.
    #[error("`{name}` {}", no_version(known, *version))]
    Version {
        /// The item.
        name: &'static str,
        /// The requested version.
        version: Version,
        /// The versions that it is in; empty if its paper has only one.
        known: &'static [Version],
    },
    /// The item has no runs to list or train.
    #[error(
        "`{0}` is not made of training runs, so there is nothing to plan: without `--dry-run` it is computed at once"
    )]
    NoRuns(&'static str),
    /// The file of a sweep is missing.
    #[error(
        "no file `{}`: `--configs` names a folder of configurations and sweeps, as `configs` of kvt's repository is",
        .0.display()
    )]
    NoSweep(PathBuf),
    /// A stop was requested.
    #[error("stopped; the same command continues from here")]
    Stopped,
    /// The sweep of the item failed.
    #[error(transparent)]
    Sweep(#[from] SweepError),
    /// A run, its model or its data failed.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// A trained model cannot be judged.
    #[error(transparent)]
    Trained(#[from] TrainedError),
    /// A run cannot be reported on.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// The given settings are wrong.
    #[error(transparent)]
    Config(Box<ConfigError>),
    /// The configuration of a model is wrong.
    #[error(transparent)]
    Model(#[from] ModelError),
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

/// Explains a missing or wrong scale of an item that has these scales.
fn no_scale(known: &[Scale], given: Option<Scale>) -> String {
    let names = quoted(known.iter().map(|scale| scale.name()));
    match given {
        _ if known.is_empty() => {
            "takes neither images nor training: leave `--scale` and `--data` out".to_owned()
        }
        Some(given) => format!("has no runs at the scale `{given}`; `--scale` can be {names}"),
        None => format!(
            "trains models for hours or days, so how much must be chosen: `--scale` can be {names} (`kvt reproduce --help` explains \
             them)"
        ),
    }
}

/// Names the parts of an item.
fn known_parts(parts: &[&'static str]) -> String {
    if parts.is_empty() {
        "leave `--only` out".to_owned()
    } else {
        format!("`--only` can be {}", quoted(parts.iter().copied()))
    }
}

/// Explains why an item of these versions is not in another one.
fn no_version(known: &[Version], given: Version) -> String {
    if known.is_empty() {
        return "is the same in every version of its paper: leave `--version` out".to_owned();
    }
    format!(
        "is not in version `{}` of the paper, only in {}: what differs is in `docs/reproduction.md`",
        given.name(),
        quoted(known.iter().map(|version| version.name()))
    )
}

fn quoted<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    names.join(", ")
}
