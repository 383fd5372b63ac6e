//! `kvt predict`

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use serde_json::json;

use super::common::Overrides;
use super::{output, table, trained::Trained};
use crate::augment::Transform;
use crate::data::{Batch, decode};
use crate::engine::{eval_transform, predict_batch};
use kvt_attention::Key;

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
            fs_err::read_to_string(path)?
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
        predictions.extend(predict(
            &trained,
            &transform,
            images,
            names.as_deref(),
            args.top,
        )?);
    }
    if args.json {
        let records: Vec<_> = predictions
            .iter()
            .map(|(path, guesses)| {
                let top: Vec<_> = guesses
                    .iter()
                    .map(|g| json!({"class": g.class, "probability": g.probability}))
                    .collect();
                json!({"image": path, "top": top})
            })
            .collect();
        output::print(&format!("{:#}", json!(records)))?;
        return Ok(ExitCode::SUCCESS);
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
    output::print(&table::table(&["image", "class", "probability"], rows))?;
    Ok(ExitCode::SUCCESS)
}

fn predict(
    trained: &Trained,
    transform: &Transform,
    paths: &[PathBuf],
    names: Option<&[String]>,
    top: usize,
) -> anyhow::Result<Vec<(PathBuf, Vec<Guess>)>> {
    let (height, width) = trained.size;
    let pixels = 3 * height * width;
    let mut images = vec![0.0; paths.len() * pixels];
    for (path, out) in paths.iter().zip(images.chunks_exact_mut(pixels)) {
        // Evaluation draws nothing, so any key will do.
        transform
            .apply(decode(path)?, Key::new(0), out)
            .with_context(|| format!("could not prepare `{}`", path.display()))?;
    }
    let batch = Batch {
        images,
        labels: vec![0; paths.len()],
        indices: Vec::new(),
        size: trained.size,
    };
    let (logits, classes) = predict_batch(&trained.model, &batch, &trained.device.device)?;
    Ok(paths
        .iter()
        .cloned()
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
