//! The options that name a trained model, and what is changed about its configuration.

use std::path::{Path, PathBuf};

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
    #[command(flatten)]
    checkpoint: Checkpoint,
    /// A configuration file instead of a run.
    #[arg(long, value_name = "CONFIG", conflicts_with_all = ["checkpoint", "ema", "raw"])]
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
            (Some(folder), _) => Ok(self.checkpoint.of(folder, &self.overrides)),
            (None, Some(file)) => Ok(Origin::Config {
                file: file.clone(),
                weights: self.weights.clone(),
                overrides: self.overrides.all(),
            }),
            (None, None) => bail!("neither a run nor a configuration"),
        }
    }
}

/// Which weights of a run.
#[derive(Debug, clap::Args)]
pub(super) struct Checkpoint {
    /// Which checkpoint of a run: `best`, `last`, the name or the folder of one.
    #[arg(long, value_name = "CHECKPOINT", default_value = "best")]
    pub(super) checkpoint: String,
    /// Take the average of the run's weights, as `ema.decay` made the run keep it; what a run with
    /// `ema.report = "ema"` does anyway.
    #[arg(long)]
    ema: bool,
    /// Take the trained weights of a run that reports their average, or the student of a run of DINO.
    #[arg(long, conflicts_with = "ema")]
    raw: bool,
}

impl Checkpoint {
    /// The weights of a run.
    pub(super) fn of(&self, run: &Path, overrides: &Overrides) -> Origin {
        Origin::Run {
            folder: run.to_owned(),
            checkpoint: self.checkpoint.clone(),
            weights: self.weights(),
            overrides: overrides.all(),
        }
    }

    pub(super) fn weights(&self) -> Choice {
        match (self.ema, self.raw) {
            (true, _) => Choice::Average,
            (false, true) => Choice::Raw,
            (false, false) => Choice::Reported,
        }
    }
}
