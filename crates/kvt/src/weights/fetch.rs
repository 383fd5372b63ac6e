//! `kvt weights fetch`

use std::path::{Path, PathBuf};

use super::ENDING;
use crate::common::check_new_of;
use crate::output;
use kvt_train::fetch::Published;

/// `kvt weights fetch NAME`
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kvt weights fetch deit_tiny_patch16_224\n  kvt weights fetch swin_tiny_patch4_window7_224.ms_in22k --output w.safetensors\n\nWherever weights are given, as in `kvt finetune photos --weights deit_tiny_patch16_224`, their name is enough.\n`HF_ENDPOINT` names a mirror, `HF_HOME` the folder of the cache."
)]
pub(super) struct Args {
    /// Weights, a name of `kvt models list --weights`; of a model alone, timm's default.
    name: String,
    /// Also write them to this `.safetensors` file.
    #[arg(long, alias = "out", value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file if it exists.
    #[arg(long)]
    force: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let weights = Published::find(&args.name)?;
    if let Some(path) = &args.output {
        check_new_of(path, ENDING, args.force)?;
    }
    let file = weights.file()?;
    let file = match &args.output {
        Some(path) => {
            copy(&file, path)?;
            // `kvt finetune` does not find timm's description of the weights beside a copy.
            output::status(
                "timm's description of these weights (normalisation, crop) stays in the cache: without `--output`, the printed file has it \
                 beside it",
            );
            path.clone()
        }
        None => file,
    };
    output::print(&file.display().to_string())
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    let mut from = fs_err::File::open(from)?;
    kvt_data::fs::write_atomic(to, |file| std::io::copy(&mut from, file).map(drop))?;
    Ok(())
}
