//! The options that name a trained model, and what is changed about its configuration.

use std::path::PathBuf;

use anyhow::bail;
use clap::ArgGroup;

use super::common::Overrides;
use kvt_tools::trained::{Choice, Origin};

/// Where the model comes from.
#[derive(Debug, clap::Args)]
// Flattened into another `Args`: clap names each group after its type, and names must be unique.
#[group(id = "trained")]
#[command(group(ArgGroup::new("run or configuration").required(true).args(["run", "config"])))]
pub(super) struct Args {
    /// A run's folder.
    #[arg(long, value_name = "RUN")]
    run: Option<PathBuf>,
    /// Which of the run's checkpoints: `best`, `last`, or a checkpoint's folder.
    #[arg(
        long,
        value_name = "CHECKPOINT",
        default_value = "best",
        conflicts_with = "config"
    )]
    checkpoint: String,
    /// Take the average of the run's weights, as `ema.decay` made the run keep it; what a run with
    /// `ema.report = "ema"` does anyway.
    #[arg(long, conflicts_with = "config")]
    ema: bool,
    /// Take the trained weights of a run that reports their average, or the student of a run of DINO.
    #[arg(long, conflicts_with_all = ["config", "ema"])]
    raw: bool,
    /// A configuration file instead of a run.
    #[arg(long, value_name = "CONFIG")]
    config: Option<PathBuf>,
    /// Weights for the configuration, a file or a name of `kvt models list --weights`; short for
    /// `--set init.weights=FILE`.
    #[arg(long, value_name = "FILE", requires = "config", conflicts_with = "run")]
    weights: Option<PathBuf>,
    #[command(flatten)]
    overrides: Overrides,
}

impl Args {
    /// The model's origin, with which it is loaded.
    pub(super) fn origin(&self) -> anyhow::Result<Origin> {
        match (&self.run, &self.config) {
            (Some(folder), _) => Ok(Origin::Run {
                folder: folder.clone(),
                checkpoint: self.checkpoint.clone(),
                weights: choice(self.ema, self.raw),
                overrides: self.overrides.all(),
            }),
            (None, Some(file)) => Ok(Origin::Config {
                file: file.clone(),
                weights: self.weights.clone(),
                overrides: self.overrides.all(),
            }),
            (None, None) => bail!("neither a run nor a configuration"),
        }
    }
}

/// The weights that `--ema` and `--raw` name, of which only one can be given.
pub(super) fn choice(ema: bool, raw: bool) -> Choice {
    match (ema, raw) {
        (true, _) => Choice::Average,
        (false, true) => Choice::Raw,
        (false, false) => Choice::Reported,
    }
}
