//! The logits of a run for all images of a split.

use std::path::{Path, PathBuf};

use crate::common::{SPLITS, check_not_read, counting, generating, named};
use crate::output;
use crate::trained::Checkpoint;
use kvt_tools::trained::{Images, Trained};
use kvt_train::data::Split;
use kvt_train::run::RunDir;
use kvt_train::task::check_classes;

/// A run, and which of its images.
#[derive(Debug, clap::Args)]
#[group(id = "split_logits")]
pub(super) struct Args {
    /// A run's folder: its logits of all images of a split, prepared as for evaluation.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["model", "config", "weights", "input"])]
    pub(super) run: Option<PathBuf>,
    #[command(flatten)]
    checkpoint: Checkpoint,
    /// Which split.
    #[arg(long, default_value = "train", value_parser = named(SPLITS, Split::name))]
    split: Split,
    /// Write the logits in 16 bits, which take half the space.
    #[arg(long)]
    half: bool,
}

pub(super) fn run(run: &Path, args: &super::Args) -> anyhow::Result<()> {
    let own = &args.split;
    let dir = RunDir::open(run)?;
    let read = [dir.checkpoints(), dir.config(), dir.classes()];
    let given = Path::new(&own.checkpoint.checkpoint);
    check_not_read(
        &args.output,
        read.iter().map(PathBuf::as_path).chain([given]),
    )?;
    let origin = own.checkpoint.of(run, &args.overrides);
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
