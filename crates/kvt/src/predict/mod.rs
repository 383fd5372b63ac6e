//! `kvt predict`

mod painted;
mod rows;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};

use self::rows::Rows;
use super::common::{bar, check_new, number, success_if};
use super::images::expand;
use super::output;
use kvt_data::escape::one_line;
use kvt_data::fs::write_atomic;
use kvt_data::text::counted;
use kvt_tools::trained::Trained;
use kvt_train::task::TaskKind;

/// `kvt predict --run RUN FILE...`
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kvt predict --run runs/photos some.jpg other.png\n  kvt predict --run runs/photos photos/new --top 1 --output classes.csv\n  kvt predict --config photos.toml --weights w.pth --classes names.txt some.jpg\n  kvt predict --run runs/scenes --output painted street.jpg"
)]
pub(super) struct Args {
    #[command(flatten)]
    trained: super::trained::Args,
    /// Image files, folders of images, or patterns such as `photos/*.jpg`.
    #[arg(value_name = "IMAGE", required = true)]
    images: Vec<PathBuf>,
    /// Classes to show per image: by default 5, of several labels per image all above their threshold.
    #[arg(long, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    top: Option<usize>,
    /// A file of class names, one per line in label order, in place of those of the run.
    #[arg(long, value_name = "FILE")]
    classes: Option<PathBuf>,
    /// Print JSON instead of a table; an image without an answer is in it with its error.
    #[arg(long)]
    json: bool,
    /// Write the classes to this `.csv` or `.json` file instead of printing them; it appears once all images are in it. A device or a pipe gets CSV. Of segmentation and detection: the folder of the painted images.
    #[arg(long, alias = "out", value_name = "FILE", value_parser = table_or_folder, conflicts_with = "json")]
    output: Option<PathBuf>,
    /// Replace the `.csv` or `.json` file if it exists.
    #[arg(long, requires = "output")]
    force: bool,
    /// Of segmentation: write index PNGs, whose numbers are the classes, in place of painted images.
    #[arg(long, requires = "output")]
    masks: bool,
    /// Of detection: paint only objects with at least this score, 0.3 by default, and not less than `detect.score`; `--json` has all above that.
    #[arg(long, value_name = "SCORE", value_parser = number(|score| (0.0..=1.0).contains(&score), "a number from 0 to 1"), conflicts_with = "json")]
    min_score: Option<f64>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (files, are_all) = expand(&args.images);
    if files.is_empty() {
        return Ok(ExitCode::FAILURE);
    }
    let origin = args.trained.origin()?;
    let task = origin.task()?;
    if args.masks && task != TaskKind::Segment {
        let has = match task {
            TaskKind::Detect => "finds objects",
            TaskKind::MultiLabel => "has labels for an image",
            _ => "has one class for an image",
        };
        bail!("`--masks` is for segmentation: this model {has}");
    }
    if args.min_score.is_some() && task != TaskKind::Detect {
        bail!("`--min-score` is for detection: this model finds no objects");
    }
    if args.top.is_some() && matches!(task, TaskKind::Segment | TaskKind::Detect) {
        bail!("`--top` is for classes of whole images: this model has them for pixels or objects");
    }
    match task {
        TaskKind::Segment => return painted::segment(args, &files, are_all),
        TaskKind::Detect => return painted::detect(args, &files, are_all),
        TaskKind::Classify | TaskKind::MultiLabel | TaskKind::Dino => {}
    }
    if let Some(path) = &args.output {
        if !is_table(path) {
            bail!(
                "`--output` is `{}`: expected a file that ends in `.csv` or `.json`",
                path.display()
            );
        }
        check_new(path, args.force)?;
    }
    let trained = Trained::load(&origin, true, &mut output::warning)?;
    let trained = trained.named(args.classes.as_deref())?;
    let failed = match &args.output {
        Some(path) => into_file(path, args, &trained, &files)?,
        None => {
            let rows = if args.json {
                Rows::Json
            } else {
                let classes = trained.model.config().num_classes();
                Rows::table(&files, classes, trained.classes.as_deref())
            };
            classify(args, &trained, &files, &rows, &mut output::write)?
        }
    };
    if let Some(path) = &args.output {
        output::status(&format!(
            "wrote the classes of {} to `{}`",
            counted(files.len() - failed, "image"),
            path.display()
        ));
    }
    // As with `cat` and `rg`, the other images are still classified, and the exit status reports the failure.
    Ok(success_if(are_all && failed == 0))
}

/// Writes the results to a file, which appears once all images are in it. Returns how many images failed.
fn into_file(
    path: &Path,
    args: &Args,
    trained: &Trained,
    files: &[PathBuf],
) -> anyhow::Result<usize> {
    let rows = Rows::of_file(path);
    let mut failed = Ok(0);
    let written = write_atomic(path, |file| {
        failed = classify(args, trained, files, &rows, &mut |text| {
            let written = file.write_all(text.as_bytes());
            written.with_context(|| format!("could not write `{}`", path.display()))
        });
        match failed {
            Ok(_) => Ok(()),
            // Only aborts the write: the error itself is in `failed`.
            Err(_) => Err(io::ErrorKind::Interrupted.into()),
        }
    });
    let failed = failed?;
    written?;
    Ok(failed)
}

/// Classifies files in order, and passes the text of each batch to `write`. Returns how many images failed.
fn classify(
    args: &Args,
    trained: &Trained,
    files: &[PathBuf],
    rows: &Rows,
    write: &mut dyn FnMut(&str) -> anyhow::Result<()>,
) -> anyhow::Result<usize> {
    let transform = trained.transform()?;
    let progress = bar("classifying", files.len());
    let mut failed = 0;
    let mut is_first = true;
    write(&rows.begin())?;
    for files in files.chunks(trained.plan.eval.batch_size) {
        let mut text = String::new();
        for prediction in trained.predict(&transform, files, args.top)? {
            if let Err(error) = &prediction.found {
                failed += 1;
                output::error(&one_line(error));
            }
            let row = rows.row(&prediction, is_first);
            is_first &= row.is_empty();
            text += &row;
        }
        write(&text)?;
        progress.inc(files.len() as u64);
    }
    write(rows.end(is_first))?;
    Ok(failed)
}

/// A file as [`is_table`] has it, or a folder, which is there or has no extension.
fn table_or_folder(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if is_table(&path) || path.extension().is_none() || path.is_dir() {
        Ok(path)
    } else {
        Err("expected a file that ends in `.csv` or `.json`".to_owned())
    }
}

/// Whether a file has the extension of a supported format, or is a device or a pipe, which gets CSV.
fn is_table(path: &Path) -> bool {
    let is_stream =
        || std::fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir());
    let ending = path.extension().and_then(|ending| ending.to_str());
    matches!(ending, Some("csv" | "json")) || is_stream()
}
