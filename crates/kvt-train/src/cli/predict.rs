//! `kvt predict`

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use serde_json::{Value, json};

use super::common::{Overrides, bar};
use super::images::expand;
use super::{output, table, trained::Trained};
use crate::augment::Transform;
use crate::data::{View, decode, eval_transform, image_limits};
use crate::fs::{check_writable, write_text};
use crate::report::csv_field;
use crate::task;
use crate::text::read_text;
use kvt_ops::Key;

/// Bytes of a file of class names.
const LARGEST_CLASSES: u64 = 1 << 26;

/// `kvt predict --run RUN FILE...`
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kvt predict --run runs/photos some.jpg other.png\n  kvt predict --run runs/photos photos/new --top 1 --output classes.csv\n  kvt predict --config configs/deit/tiny_dense.toml --weights w.pth --classes names.txt some.jpg"
)]
pub(super) struct Args {
    #[command(flatten)]
    trained: super::trained::Args,
    /// Image files, folders of images, or patterns such as `photos/*.jpg`.
    #[arg(value_name = "IMAGE", required = true)]
    images: Vec<PathBuf>,
    #[command(flatten)]
    overrides: Overrides,
    /// Classes to show per image.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    top: usize,
    /// A file of class names, one per line in label order.
    #[arg(long, value_name = "FILE")]
    classes: Option<PathBuf>,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Write the classes to this `.csv` or `.json` file instead of printing them.
    #[arg(long, value_name = "FILE", value_parser = table_file, conflicts_with = "json")]
    output: Option<PathBuf>,
}

/// An image and its most probable classes, best first.
type Prediction = (PathBuf, Vec<Guess>);

/// A class and its probability.
pub(super) struct Guess {
    pub(super) class: String,
    pub(super) probability: f64,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (files, are_all) = expand(&args.images);
    if files.is_empty() {
        return Ok(ExitCode::FAILURE);
    }
    if let Some(path) = &args.output {
        check_writable(path)?;
    }
    let trained = args.trained.load(&args.overrides)?;
    let names: Option<Vec<String>> = match &args.classes {
        Some(path) => Some(
            read_text(path, LARGEST_CLASSES)?
                .lines()
                .map(str::to_owned)
                .collect(),
        ),
        None => trained.classes.clone(),
    };
    let classes = trained.model.config().num_classes();
    if let (Some(path), Some(names)) = (&args.classes, &names)
        && names.len() != classes
    {
        bail!(
            "`{}` names {} classes, but the model has {classes}",
            path.display(),
            names.len()
        );
    }
    let transform = eval_transform(&trained.plan, trained.size)?;
    let mut predictions = Vec::new();
    let progress = bar("classifying", files.len());
    for images in files.chunks(trained.plan.eval.batch_size) {
        let readable = prepare(&trained, &transform, images);
        if !readable.is_empty() {
            predictions.extend(predict(&trained, readable, names.as_deref(), args.top)?);
        }
        progress.inc(images.len() as u64);
    }
    progress.finish_and_clear();
    // As `cat` and `rg` do: the rest is answered, and the exit status tells.
    let status = if are_all && predictions.len() == files.len() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    };
    if let Some(path) = &args.output {
        let text = match is_json(path) {
            true => format!("{:#}\n", json(&predictions)),
            false => csv(&predictions),
        };
        write_text(path, &text)?;
        output::status(&format!(
            "wrote the classes of {} images to `{}`",
            predictions.len(),
            path.display()
        ));
        return Ok(status);
    }
    if args.json {
        output::print(&format!("{:#}", json(&predictions)))?;
        return Ok(status);
    }
    let rows = predictions.iter().flat_map(|(path, guesses)| {
        guesses.iter().enumerate().map(|(rank, guess)| {
            // The file's name once, above its classes.
            let name = if rank == 0 {
                path.display().to_string()
            } else {
                String::new()
            };
            vec![
                name,
                guess.class.clone(),
                format!("{:.2} %", 100.0 * guess.probability),
            ]
        })
    });
    if !predictions.is_empty() {
        output::print(&table::table(&["image", "class", "probability"], rows))?;
    }
    Ok(status)
}

/// A file that ends as one of the formats that are written.
fn table_file(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("csv" | "json") => Ok(path),
        _ => Err("expected a file that ends in `.csv` or `.json`".to_owned()),
    }
}

fn is_json(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "json")
}

/// Images with their classes, best first.
fn json(predictions: &[Prediction]) -> Value {
    let records = predictions.iter().map(|(path, guesses)| {
        let top: Vec<_> = guesses
            .iter()
            .map(|g| json!({"class": g.class, "probability": g.probability}))
            .collect();
        // A path that is not UTF-8 is no JSON by itself.
        json!({"image": path.display().to_string(), "top": top})
    });
    records.collect()
}

/// A row for each class of each image, the best with rank 1.
fn csv(predictions: &[Prediction]) -> String {
    let mut text = "image,rank,class,probability\n".to_owned();
    for (path, guesses) in predictions {
        let image = csv_field(&path.display().to_string());
        for (rank, guess) in (1..).zip(guesses) {
            let class = csv_field(&guess.class);
            text += &format!("{image},{rank},{class},{}\n", guess.probability);
        }
    }
    text
}

/// The images that can be read, with their files; the others are reported.
fn prepare(
    trained: &Trained,
    transform: &Transform,
    paths: &[PathBuf],
) -> Vec<(PathBuf, Vec<f32>)> {
    let (height, width) = trained.size;
    let mut prepared = Vec::with_capacity(paths.len());
    for path in paths {
        let mut image = vec![0.0; 3 * height * width];
        let result = decode(path, image_limits(&trained.plan))
            .map_err(anyhow::Error::from)
            .and_then(|raw| {
                // Evaluation draws nothing, so any key will do.
                transform
                    .apply(raw, Key::new(0), &mut image)
                    .with_context(|| format!("could not prepare `{}`", path.display()))
            });
        match result {
            Ok(()) => prepared.push((path.clone(), image)),
            Err(error) => output::error(&format!("{error:#}")),
        }
    }
    prepared
}

fn predict(
    trained: &Trained,
    prepared: Vec<(PathBuf, Vec<f32>)>,
    names: Option<&[String]>,
    top: usize,
) -> anyhow::Result<Vec<Prediction>> {
    let (paths, images): (Vec<PathBuf>, Vec<Vec<f32>>) = prepared.into_iter().unzip();
    let images = View {
        pixels: images.concat(),
        size: trained.size,
    };
    let (logits, classes) = task::predict(&trained.model, images, &trained.device.device)?;
    let finite = |row: &[f32]| row.iter().all(|x| x.is_finite());
    let broken = logits.chunks_exact(classes).filter(|row| !finite(row));
    match broken.count() {
        0 => {}
        count => bail!(
            "the logits of {count} of {} images are not finite: take other weights",
            paths.len()
        ),
    }
    Ok(paths
        .into_iter()
        .zip(
            logits
                .chunks_exact(classes)
                .map(|row| best(row, names, top)),
        )
        .collect())
}

/// The `top` most probable classes of a row of logits, best first.
pub(super) fn best(logits: &[f32], names: Option<&[String]>, top: usize) -> Vec<Guess> {
    let max = logits.iter().fold(f32::NEG_INFINITY, |m, &x| m.max(x));
    let weights: Vec<f64> = logits.iter().map(|&x| f64::from(x - max).exp()).collect();
    let sum: f64 = weights.iter().sum();
    let mut order: Vec<(usize, f64)> = weights.into_iter().enumerate().collect();
    order.sort_by(|(i, a), (j, b)| b.total_cmp(a).then(i.cmp(j)));
    order
        .into_iter()
        .take(top)
        .map(|(class, weight)| Guess {
            class: names
                .and_then(|names| names.get(class).cloned())
                .unwrap_or_else(|| class.to_string()),
            probability: weight / sum,
        })
        .collect()
}
