//! `kvt data`

mod check;
mod fetch;
mod generate;
mod pack;
mod score;
mod split;

use std::process::ExitCode;

use clap::Subcommand;

use super::common::number;

/// The default column of the labels.
const LABEL: &str = "label";

/// `kvt data fetch NAME`, `generate DIR`, `check DIR`, `split DIR` and `pack DIR OUT`
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kvt data fetch imagenette-160\n  kvt data check photos\n  kvt data split photos --val-fraction 0.2\n  kvt data pack photos shards\n  kvt data generate shapes"
)]
pub(super) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Download a small data set of photos as an image folder, or list those that there are.
    Fetch(fetch::Args),
    /// Write the generated data set of geometric shapes: an image folder, or scenes with masks.
    Generate(generate::Args),
    /// Score a file of detections by COCO's average precision, of boxes and of masks.
    Score(score::Args),
    /// List which images of a folder without splits train and which validate, as `data.val_fraction` has it.
    Split(split::Args),
    /// Write an image folder or Parquet files as tar shards (WebDataset), of which each image is read by itself.
    Pack(pack::Args),
    /// Read every image of a data set and report what is wrong with it.
    Check(check::Args),
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.what {
        What::Fetch(args) => fetch::run(args)?,
        What::Generate(args) => generate::run(args)?,
        What::Score(args) => score::run(args)?,
        What::Split(args) => split::run(args)?,
        What::Pack(args) => pack::run(args)?,
        What::Check(args) => return check::run(args),
    }
    Ok(ExitCode::SUCCESS)
}

/// A share of the images.
fn share(text: &str) -> Result<f64, String> {
    number(
        |share| share > 0.0 && share < 1.0,
        "a number above 0 and below 1",
    )(text)
}
