//! `kvt predict`

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use serde_json::json;

use super::common::Overrides;
use super::{output, table, trained::Trained};
use crate::augment::Transform;
use crate::data::{View, decode, eval_transform, image_limits};
use crate::task;
use crate::text::read_text;
use kvt_ops::Key;

/// Bytes of a file of class names.
const LARGEST_CLASSES: u64 = 1 << 26;

/// `kvt predict --run RUN FILE...`
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    trained: super::trained::Args,
    /// Image files.
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
}

/// A class and its probability.
struct Guess {
    class: String,
    probability: f64,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
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
    for images in args.images.chunks(trained.plan.eval.batch_size) {
        let readable = prepare(&trained, &transform, images);
        if !readable.is_empty() {
            predictions.extend(predict(&trained, readable, names.as_deref(), args.top)?);
        }
    }
    // As `cat` and `rg` do: the rest is answered, and the exit status tells.
    let status = if predictions.len() == args.images.len() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    };
    if args.json {
        let records: Vec<_> = predictions
            .iter()
            .map(|(path, guesses)| {
                let top: Vec<_> = guesses
                    .iter()
                    .map(|g| json!({"class": g.class, "probability": g.probability}))
                    .collect();
                // A path that is not UTF-8 is no JSON by itself.
                json!({"image": path.display().to_string(), "top": top})
            })
            .collect();
        output::print(&format!("{:#}", json!(records)))?;
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
) -> anyhow::Result<Vec<(PathBuf, Vec<Guess>)>> {
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
fn best(logits: &[f32], names: Option<&[String]>, top: usize) -> Vec<Guess> {
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
