//! `kvt demo`

use std::path::PathBuf;
use std::process::ExitCode;

use super::common::Overrides;
use super::watch::Terminal;
use super::{interrupt, output};
use kvt_data::text::shell;
use kvt_papers::demo;

/// `kvt demo [--output DIR] [--device DEVICE]`
///
/// Needs no data and no network: it generates images of shapes, trains a small So-ViT on them with dense attention and with k-NN attention,
/// and writes the table, the curves, a report and a picture of attention. After Ctrl-C the same command continues, and what is
/// finished is not trained again.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kvt demo\n  kvt demo --device wgpu --output runs/demo-wgpu\n  kvt demo --set seed=1 --output runs/demo-1"
)]
pub(super) struct Args {
    /// The folder of images, runs and results.
    #[arg(long, alias = "out", value_name = "DIR", default_value = "runs/demo")]
    output: PathBuf,
    #[command(flatten)]
    overrides: Overrides,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    interrupt::listen();
    let watch = Terminal::new("evaluating");
    let made = demo(&args.output, &args.overrides.all(), &watch)?;
    drop(watch);
    let (outcome, runs, files) = (made.outcome, made.runs, made.files);
    output::warnings(&outcome.warnings);
    if let Some(comparison) = &outcome.comparison {
        output::print(&comparison.to_text(comfy_table::Table::new().width()))?;
    }
    for path in &files {
        output::print(&format!("wrote `{}`", path.display()))?;
    }
    outcome
        .failures
        .iter()
        .for_each(|failure| output::error(failure));
    if files.is_empty() {
        return Ok(ExitCode::FAILURE);
    }
    output::status(&format!(
        "table and curves are in `{}`",
        args.output.display()
    ));
    if let Some(run) = runs.last() {
        let image = args.output.join("shapes/val/circle/00000.png");
        let [run, image] = [run, &image].map(|path| shell(&path.display().to_string()));
        output::status(&format!("next: kvt predict --run {run} {image}"));
    }
    if let [dense, knn] = runs.as_slice() {
        let configs = [dense, knn].map(|run| shell(&run.join("config.toml").display().to_string()));
        output::status(&format!(
            "more seeds: kvt compare {} --seeds 3",
            configs.join(" ")
        ));
    }
    output::status(
        "your own images, in photos/<class>/*: kvt finetune photos --weights deit_tiny_patch16_224",
    );
    Ok(ExitCode::SUCCESS)
}
