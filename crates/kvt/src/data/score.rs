//! `kvt data score`

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::Value;

use crate::output;
use crate::table::table;
use kvt_data::text::counted;
use kvt_train::task::{AveragePrecision, Scores, score};

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

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let scores = score(&args.annotations, &args.detections)?;
    if args.json {
        output::print(&format!("{:#}", Value::from(scores.json(args.per_class))))?;
        return Ok(ExitCode::SUCCESS);
    }
    output::print(&format!(
        "{} in {}, as pycocotools counts, in percent\n\n{}",
        counted(scores.detections, "detection"),
        counted(scores.images, "image"),
        text(&scores)
    ))?;
    if args.per_class {
        output::print(&format!("\n{}", classes(&scores)))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn percent(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{:.1}", 100.0 * value))
}

/// The table of the twelve numbers, of boxes and of masks.
pub(crate) fn text(scores: &Scores) -> String {
    let header = std::iter::once("").chain(scores.kinds().map(|(kind, _)| kind));
    let header: Vec<&str> = header.collect();
    let rows = AveragePrecision::NAMES
        .iter()
        .enumerate()
        .map(|(at, (_, words))| {
            let own = scores.kinds().map(|(_, of)| percent(of.numbers()[at]));
            std::iter::once((*words).to_owned()).chain(own).collect()
        });
    table(&header, rows)
}

/// The table of the classes.
pub(crate) fn classes(scores: &Scores) -> String {
    let header = std::iter::once("AP of class").chain(scores.kinds().map(|(kind, _)| kind));
    let header: Vec<&str> = header.collect();
    let rows = scores.classes.iter().enumerate().map(|(at, name)| {
        let own = scores
            .kinds()
            .map(|(_, of)| percent(of.classes.get(at).copied().flatten()));
        std::iter::once(name.clone()).chain(own).collect()
    });
    table(&header, rows)
}
