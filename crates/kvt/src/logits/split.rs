//! The logits of a run for all images of a split.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::bail;
use burn::tensor::{DType, TensorData};
use kvt_models::weights::StateDict;

use super::broken;
use crate::common::bar;
use crate::labelled::Split;
use crate::output;
use crate::trained::{self, Trained};
use kvt_train::data::OnError;
use kvt_train::splits::{eval_batches, eval_transform};
use kvt_train::task::write_weights;
use kvt_train::task::{LABELS, LOGITS, check_classes, origin, predict};

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
    #[arg(long, value_enum, default_value_t = Split::Train, requires = "run")]
    split: Split,
    /// Write the logits in 16 bits, which take half the space.
    #[arg(long, requires = "run")]
    half: bool,
}

pub(super) fn run(run: &Path, args: &super::Args) -> anyhow::Result<ExitCode> {
    let own = &args.split;
    let trained = trained::Args::of_run(run, &own.checkpoint, own.ema);
    let Trained {
        mut plan,
        model,
        device,
        classes,
        size,
    } = trained.load(&args.overrides)?;
    // Row n is image n, so no image may be left out.
    plan.data.on_error = OnError::Fail;
    let transform = Arc::new(eval_transform(&plan, size)?);
    let source = Arc::new(own.split.open(&plan, classes.as_deref())?);
    check_classes(&model.config(), &source)?;
    let images = source.samples.len();
    let classes = model.config().num_classes();
    let progress = bar("computing logits", images);
    let (mut logits, mut labels) = (Vec::new(), Vec::new());
    for batch in eval_batches(&plan, &source, &transform)? {
        let batch = batch?;
        for images in batch.views {
            logits.extend(predict(&model, images, &device.device)?.0);
        }
        labels.extend(batch.targets.into_iter().map(i64::from));
        progress.set_position(labels.len() as u64);
    }
    progress.finish_and_clear();
    let broken = broken(&logits, classes);
    if broken > 0 {
        bail!("the logits of {broken} of {images} images are not finite: take other weights");
    }
    let data = TensorData::new(logits, [images, classes]);
    let mut out = StateDict::default();
    out.insert(
        LOGITS,
        if own.half {
            data.convert_dtype(DType::F16)
        } else {
            data
        },
    );
    out.insert(LABELS, TensorData::new(labels, [images]));
    write_weights(&args.output, &out, &origin(&source)?)?;
    output::status(&format!(
        "wrote the logits of the {images} images in `{}` to `{}` ({} on {})",
        source.root.display(),
        args.output.display(),
        model.config().name(),
        device.name
    ));
    Ok(ExitCode::SUCCESS)
}
