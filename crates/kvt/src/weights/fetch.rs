//! `kvt weights fetch`

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::check_output;
use crate::output;
use kvt_train::fetch::Published;

/// `kvt weights fetch NAME`
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kvt weights fetch deit_tiny_patch16_224\n  kvt weights fetch swin_tiny_patch4_window7_224.ms_in22k --output swin.safetensors\n  kvt finetune photos --weights \"$(kvt weights fetch deit_tiny_patch16_224)\"\n\n`HF_ENDPOINT` names a mirror, `HF_HOME` the folder of the cache."
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

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let weights = Published::find(&args.name)?;
    if let Some(path) = &args.output {
        check_output(path, args.force)?;
    }
    let file = fetched(weights)?;
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
    output::print(&file.display().to_string())?;
    Ok(ExitCode::SUCCESS)
}

/// The file in the cache, downloaded if it is missing.
#[cfg(feature = "fetch")]
fn fetched(weights: Published) -> anyhow::Result<PathBuf> {
    let mut shown = None;
    let mut told = |done: u64, total: u64| {
        let bar = shown.get_or_insert_with(|| {
            if !output::is_watched() {
                let name = weights.name();
                output::status(&format!("downloading `{name}`, {} MB", total / 1_000_000));
            }
            crate::common::bytes_bar("downloading", total)
        });
        bar.set_position(done);
    };
    Ok(kvt_train::fetch::Hub::from_env().fetch(weights, &mut told)?)
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    let mut from = fs_err::File::open(from)?;
    kvt_data::fs::write_atomic(to, |file| std::io::copy(&mut from, file).map(drop))?;
    Ok(())
}

#[cfg(not(feature = "fetch"))]
fn fetched(weights: Published) -> anyhow::Result<PathBuf> {
    anyhow::bail!(
        "this build of kvt downloads nothing: build it with `--features fetch`, as in `cargo install --locked --path \
         crates/kvt-train --features fetch`, or take `model.safetensors` of `{}` from the hub yourself",
        weights.repository()
    )
}
