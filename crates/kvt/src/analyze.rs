//! `kvt analyze`

use std::path::PathBuf;

use serde_json::json;

use super::common::{SPLITS, done_of, generating, named, results_folder};
use super::table::table;
use super::{output, trained};
use kvt_data::escape::code;
use kvt_data::fs::write_text;
use kvt_tools::trained::{Images, Trained};
use kvt_train::analysis::{Analyzer, Measure, analyze, csv, figure, json, markdown, rows, tiles};
use kvt_train::data::Split;
use kvt_train::splits::some_batches;

/// `kvt analyze --run RUN`, or `kvt analyze --config CONFIG --weights FILE`
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kvt analyze --run runs/knn --out runs/knn/analysis\n  kvt analyze --run runs/knn --split train --images 2000\n  kvt analyze --config configs/deit/tiny_dense.toml --weights deit_tiny.pth"
)]
pub(super) struct Args {
    #[command(flatten)]
    trained: trained::Args,
    /// Which split, without augmentation.
    #[arg(long, default_value = "val", value_parser = named(SPLITS, Split::name))]
    split: Split,
    /// Images, at equal distances in the split, that are looked at; 0 is all of them.
    #[arg(long, value_name = "N", default_value_t = 0)]
    images: usize,
    /// Look at another image folder, `DIR/<class>/*`, with the run's classes.
    #[arg(long, value_name = "DIR", conflicts_with = "split")]
    data: Option<PathBuf>,
    /// Also write `layers.csv`, `layers.json`, `layers.md` and `layers.svg` into this folder: every convention of every metric;
    /// `tiles.csv` and `tiles.svg` too, if a layer drops keys: what tiles of queries keep together.
    #[arg(long, alias = "output", value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let warn = &mut output::warning;
    let trained = Trained::load_backbone(&args.trained.origin()?, false, warn)?;
    let (plan, model, classes) = (&trained.plan, &trained.model, trained.classes.as_deref());
    let images = match &args.data {
        Some(dir) => Images::of_folder(dir, plan, classes, warn)?,
        None => Images::of_split(args.split, plan, classes, &mut generating(), warn)?,
    };
    let source = images.source;
    if let Some(out) = &args.out {
        // Create the folder before analysing the images.
        results_folder(out)?;
    }
    let all = source.samples.len();
    let total = match args.images {
        0 => all,
        some => some.min(all),
    };
    let mut batches = some_batches(plan, &source, &trained.transform()?, args.images)?;
    let layers = analyze(
        Analyzer::with_tiles(),
        model,
        &mut batches,
        &trained.device.device,
        done_of("analyzing", total),
    );
    output::warnings(batches.warnings());
    let layers = layers?;
    let images = layers.first().map_or(0, |layer| layer.images());
    let name = model.config().name();
    let seen = format!("{images} images of `{}`", source.root.display());
    let record = json!({ "model": name, "data": source.root.display().to_string(), "layers": json(&layers) });
    let tile_rows = tiles::rows(&layers);
    if let Some(out) = &args.out {
        write_text(&out.join("layers.csv"), &csv(&layers))?;
        write_text(&out.join("layers.json"), &format!("{record:#}\n"))?;
        let root = code(&source.root.display().to_string());
        let page = format!(
            "`{name}`, {images} images of {root}: mean ± standard error over the images.\n\n"
        );
        write_text(&out.join("layers.md"), &(page + &markdown(&layers)))?;
        let runs = [(name.clone(), layers.as_slice())];
        let svg = figure(&format!("{name}: {images} images"), &runs);
        write_text(&out.join("layers.svg"), &svg.map_err(anyhow::Error::msg)?)?;
        if !tile_rows.is_empty() {
            write_text(&out.join("tiles.csv"), &tiles::csv(&layers))?;
            let svg = tiles::figure(&format!("{name}: kept keys, {images} images"), &layers);
            write_text(&out.join("tiles.svg"), &svg.map_err(anyhow::Error::msg)?)?;
        }
    }
    if args.json {
        output::print(&format!("{record:#}"))?;
    } else {
        let titles = Measure::SHOWN.map(Measure::title);
        let header = std::iter::once("layer").chain(titles);
        output::print(&table(header, rows(&layers)))?;
        output::print(&format!("mean ± standard error over {seen}"))?;
        if !tile_rows.is_empty() {
            output::print(&format!("\n{}", table(tiles::HEADER, tile_rows)))?;
        }
    }
    if let Some(out) = &args.out {
        output::status(&format!(
            "tables of all conventions and pictures are in `{}`",
            out.display()
        ));
    }
    Ok(())
}
