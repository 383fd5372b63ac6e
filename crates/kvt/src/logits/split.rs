//! The logits of a run for all images of a split.

use std::path::{Path, PathBuf};

use crate::common::{SPLITS, counting, generating, named};
use crate::output;
use crate::trained::choice;
use kvt_tools::trained::{Images, Origin, Trained};
use kvt_train::data::Split;
use kvt_train::task::check_classes;

/// A run, and which of its images.
#[derive(Debug, clap::Args)]
#[group(id = "split_logits")]
pub(super) struct Args {
    /// A run's folder: its logits of all images of a split, prepared as for evaluation.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["model", "config", "weights", "input"])]
    pub(super) run: Option<PathBuf>,
    /// Which of the run's checkpoints: `best`, `last`, or a checkpoint's folder.
    #[arg(
        long,
        value_name = "CHECKPOINT",
        default_value = "best",
        requires = "run"
    )]
    checkpoint: String,
    /// Take the average of the run's weights, as `ema.decay` made the run keep it.
    #[arg(long, requires = "run")]
    ema: bool,
    /// Which split.
    #[arg(long, default_value = "train", value_parser = named(SPLITS, Split::name), requires = "run")]
    split: Split,
    /// Write the logits in 16 bits, which take half the space.
    #[arg(long, requires = "run")]
    half: bool,
}

pub(super) fn run(run: &Path, args: &super::Args) -> anyhow::Result<()> {
    let own = &args.split;
    let origin = Origin::Run {
        folder: run.to_owned(),
        checkpoint: own.checkpoint.clone(),
        weights: choice(own.ema, false),
        overrides: args.overrides.all(),
    };
    let warn = &mut output::warning;
    let trained = Trained::load(&origin, true, warn)?;
    let (plan, classes) = (&trained.plan, trained.classes.as_deref());
    let images = Images::of_split(own.split, plan, classes, &mut generating(), warn)?;
    let config = trained.model.config();
    check_classes(&config, &images.source)?;
    let device = trained.device.name.clone();
    let progress = &mut counting("computing logits");
    trained.write_logits(&images, own.half, &args.output, progress)?;
    output::status(&format!(
        "wrote the logits of the {} images in `{}` to `{}` ({} on {device})",
        images.source.samples.len(),
        images.source.root.display(),
        args.output.display(),
        config.name(),
    ));
    Ok(())
}
