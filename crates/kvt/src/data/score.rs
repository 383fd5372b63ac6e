//! `kvt data score`

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Map, Value, json};

use crate::output;
use crate::table::table;
use kvt_data::text::counted;
use kvt_train::task::{AveragePrecision, Scores, score};

/// What pycocotools prints, in its order: the key in JSON, and the words.
const NUMBERS: [(&str, &str); 12] = [
    ("ap", "AP"),
    ("ap50", "AP50"),
    ("ap75", "AP75"),
    ("ap_small", "AP, small objects"),
    ("ap_medium", "AP, medium"),
    ("ap_large", "AP, large"),
    ("ar1", "AR, 1 detection of a class"),
    ("ar10", "AR, 10"),
    ("ar100", "AR, 100"),
    ("ar_small", "AR, small objects"),
    ("ar_medium", "AR, medium"),
    ("ar_large", "AR, large"),
];

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
        output::print(&format!("{:#}", in_json(&scores, args.per_class)))?;
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

/// Boxes, and masks if they are compared.
fn kinds(scores: &Scores) -> impl Iterator<Item = (&'static str, &AveragePrecision)> {
    std::iter::once(("boxes", &scores.boxes)).chain(scores.masks.iter().map(|of| ("masks", of)))
}

fn percent(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{:.1}", 100.0 * value))
}

fn text(scores: &Scores) -> String {
    let header = std::iter::once("").chain(kinds(scores).map(|(kind, _)| kind));
    let header: Vec<&str> = header.collect();
    let rows = NUMBERS.iter().enumerate().map(|(at, (_, words))| {
        let own = kinds(scores).map(|(_, of)| percent(of.numbers()[at]));
        std::iter::once((*words).to_owned()).chain(own).collect()
    });
    table(&header, rows)
}

fn classes(scores: &Scores) -> String {
    let header = std::iter::once("AP of class").chain(kinds(scores).map(|(kind, _)| kind));
    let header: Vec<&str> = header.collect();
    let rows = scores.classes.iter().enumerate().map(|(at, name)| {
        let own = kinds(scores).map(|(_, of)| percent(of.classes.get(at).copied().flatten()));
        std::iter::once(name.clone()).chain(own).collect()
    });
    table(&header, rows)
}

fn in_json(scores: &Scores, per_class: bool) -> Value {
    let of = |found: &AveragePrecision| {
        let numbers = NUMBERS.iter().zip(found.numbers());
        let mut all: Map<String, Value> = numbers
            .map(|((key, _), value)| ((*key).to_owned(), json!(value)))
            .collect();
        if per_class {
            let names = scores.classes.iter().zip(&found.classes);
            let rows = names.map(|(name, ap)| json!({ "class": name, "ap": ap }));
            all.insert("classes".to_owned(), rows.collect());
        }
        Value::from(all)
    };
    let mut all = Map::new();
    all.insert("images".to_owned(), json!(scores.images));
    all.insert("detections".to_owned(), json!(scores.detections));
    all.extend(kinds(scores).map(|(kind, found)| (kind.to_owned(), of(found))));
    Value::from(all)
}
