//! `kvt eval`

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::bail;
use clap::ValueEnum;
use serde_json::json;

use super::common::{Overrides, bar, generating};
use super::output;
use super::trained::{Trained, open_folder};
use crate::data::{self, ensure_data, eval_batches, eval_transform, open_part};
use crate::task::{check_classes, evaluate};

/// `kvt eval --run RUN`, or `kvt eval --config CONFIG --weights FILE`
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    trained: super::trained::Args,
    #[command(flatten)]
    overrides: Overrides,
    /// Which split.
    #[arg(long, value_enum, default_value_t = Split::Val)]
    split: Split,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
    /// Evaluate another image folder, `DIR/<class>/*`, with the run's classes.
    #[arg(long, value_name = "DIR", conflicts_with = "split")]
    data: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Split {
    Val,
    Train,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Trained {
        plan,
        model,
        device,
        classes,
        size,
    } = args.trained.load(&args.overrides)?;
    let transform = Arc::new(eval_transform(&plan, size)?);
    let source = match &args.data {
        Some(dir) => open_folder(dir, classes.as_deref(), &plan)?,
        None => {
            ensure_data(&plan, &mut generating())?;
            let part = match args.split {
                Split::Val => data::Split::Val,
                Split::Train => data::Split::Train,
            };
            open_part(&plan.data, part, classes.as_deref())?
        }
    };
    let source = Arc::new(source);
    check_classes(&model.config(), &source)?;
    let mut batches = eval_batches(&plan, &source, &transform)?;
    let progress = bar("evaluating", source.samples.len());
    let evaluation = evaluate(&model, &mut batches, &device.device, |done| {
        progress.set_position(done as u64);
    });
    progress.finish_and_clear();
    for skipped in batches.skipped() {
        output::warning(&format!(
            "skipped `{}`: {}",
            skipped.path.display(),
            skipped.reason
        ));
    }
    let evaluation = evaluation?;
    // The weights are numbers, but what comes of them may be too large for one.
    if !evaluation.loss().is_finite() {
        bail!(
            "the loss over {} images is {}: the logits are not finite; take other weights",
            evaluation.images,
            evaluation.loss()
        );
    }
    if args.json {
        output::print(&format!(
            "{:#}",
            json!({
                // A path that is not UTF-8 is no JSON by itself.
                "data": source.root.display().to_string(),
                "images": evaluation.images,
                "loss": evaluation.loss(),
                "top1": evaluation.top1_percent(),
                "top5": evaluation.top5_percent(),
            })
        ))?;
    } else {
        output::print(&format!(
            "top-1 {:.2} %  top-5 {:.2} %  loss {:.4}  ({} images of `{}`)",
            evaluation.top1_percent(),
            evaluation.top5_percent(),
            evaluation.loss(),
            evaluation.images,
            source.root.display()
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}
