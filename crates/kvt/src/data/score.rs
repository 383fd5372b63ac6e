//! `kvt data score`

use std::path::PathBuf;

use serde_json::Value;

use crate::output;
use crate::table::{class_scores_table, scores_text};
use kvt_data::text::counted;
use kvt_train::task::score;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kvt data score instances_val2017.json detections.json --per-class"
)]
pub(super) struct Args {
    /// The annotations, as COCO has them.
    annotations: PathBuf,
    /// The detections in COCO's format of results: a list with `image_id`, `category_id`, `score`, `bbox`, and for masks `segmentation`.
    detections: PathBuf,
    /// Also tell the AP of each class.
    #[arg(long)]
    per_class: bool,
    /// Print JSON instead of text: shares in place of percent, null where nothing counts.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let scores = score(&args.annotations, &args.detections)?;
    if args.json {
        return output::print(&format!("{:#}", Value::from(scores.json(args.per_class))));
    }
    output::print(&scores_text(&scores, &counted(scores.images, "image")))?;
    if args.per_class {
        output::print(&format!("\n{}", class_scores_table(&scores)))?;
    }
    Ok(())
}
