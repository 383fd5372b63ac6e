//! `kvt predict` of networks that answer with a picture: of segmentation and detection.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use serde_json::{Value, json};

use super::Args;
use crate::common::{bar, results_folder, success_if};
use crate::output;
use kvt_data::escape::one_line;
use kvt_data::text::counted;
use kvt_tools::paint::save_index;
use kvt_tools::trained::{Detector, LEAST_SCORE, Segmenter};
use kvt_train::plot::save_png;

/// Labels the pixels of images.
pub(super) fn segment(args: &Args, files: &[PathBuf], are_all: bool) -> anyhow::Result<ExitCode> {
    check(args, "labels pixels", "which classes the images have")?;
    let trained = Segmenter::load(&args.trained.origin()?, &mut output::warning)?;
    let trained = trained.named(args.classes.as_deref())?;
    each(
        args,
        (files, are_all),
        if args.masks { "mask" } else { "painted image" },
        |path| Ok(trained.look(path)?),
        |seen, path| {
            if args.masks {
                let map = &seen.prediction;
                return Ok(save_index(path, &map.labels, map.size)?);
            }
            Ok(save_png(path, &seen.drawn(&trained.classes)?)?)
        },
        |seen| seen.json(&trained.classes),
    )
}

/// Finds objects in images.
pub(super) fn detect(args: &Args, files: &[PathBuf], are_all: bool) -> anyhow::Result<ExitCode> {
    check(
        args,
        "finds objects",
        "their classes, scores, boxes and masks",
    )?;
    let trained = Detector::load(&args.trained.origin()?, &mut output::warning)?;
    let trained = trained.named(args.classes.as_deref())?;
    let found = trained.plan.detect.score;
    if let Some(score) = args.min_score.filter(|score| *score < found) {
        bail!(
            "`--min-score {score}` is below `detect.score`, {found}, and only objects above that are found: add `--set detect.score={score}`"
        );
    }
    let least = args.min_score.unwrap_or(LEAST_SCORE);
    let bare = Cell::new(0);
    let status = each(
        args,
        (files, are_all),
        "painted image",
        |path| Ok(trained.look(path)?),
        |spotted, path| {
            if spotted.count(least) == 0 {
                bare.set(bare.get() + 1);
            }
            Ok(save_png(
                path,
                &spotted.drawn(&trained.classes, least, None)?,
            )?)
        },
        |spotted| spotted.json(&trained.classes),
    )?;
    if bare.get() > 0 {
        output::status(&format!(
            "{} without an object with a score of at least {least}: a lower `--min-score` paints more",
            counted(bare.get(), "image")
        ));
    }
    Ok(status)
}

/// Checks where the answer of a network goes before it is loaded, by what it does with an image and what `--json` prints, in words.
fn check(args: &Args, does: &str, json: &str) -> anyhow::Result<()> {
    match args.output.as_deref() {
        None if !args.json => bail!(
            "this model {does}: `--out DIR` says where the painted images go, and `--json` prints {json}"
        ),
        Some(file) if super::is_table(file) => bail!(
            "`--output {}`: this model {does}, so it is a folder, and `--json` prints {json}",
            file.display()
        ),
        Some(out) => results_folder(out),
        None => Ok(()),
    }
}

/// Looks at each file, writes what `write` makes of it, a `kind` of file, into the folder of `--out`, and prints what `record` makes of
/// it with `--json`.
fn each<S>(
    args: &Args,
    (files, are_all): (&[PathBuf], bool),
    kind: &str,
    look: impl Fn(&Path) -> anyhow::Result<S>,
    write: impl Fn(&S, &Path) -> anyhow::Result<()>,
    record: impl Fn(&S) -> Value,
) -> anyhow::Result<ExitCode> {
    let progress = bar("painting", files.len());
    let (mut records, mut failed) = (Vec::new(), 0);
    for (number, path) in files.iter().enumerate() {
        let seen = look(path);
        match &seen {
            Ok(seen) => {
                if let Some(out) = &args.output {
                    let stem = path.file_stem().unwrap_or(path.as_os_str());
                    // The number distinguishes images of the same name in several folders.
                    let name = format!("{number:03}-{}.png", stem.to_string_lossy());
                    write(seen, &out.join(name))?;
                }
            }
            Err(error) => {
                failed += 1;
                output::error(&one_line(&format!("{error:#}")));
            }
        }
        if args.json {
            let found = seen.map(|seen| record(&seen));
            let mut all = found.unwrap_or_else(|error| json!({ "error": format!("{error:#}") }));
            all["image"] = json!(path.display().to_string());
            records.push(all);
        }
        progress.inc(1);
    }
    drop(progress);
    if args.json {
        output::print(&format!("{:#}", Value::from(records)))?;
    }
    if let Some(out) = &args.output {
        let done = counted(files.len() - failed, kind);
        output::status(&format!("wrote {done} into `{}`", out.display()));
    }
    // As with classes: the other images are still painted, and the exit status reports the failure.
    Ok(success_if(are_all && failed == 0))
}
