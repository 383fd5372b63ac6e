//! `kvt predict` of segmentation.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use serde_json::{Map, Value, json};

use super::Args;
use crate::common::{bar, results_folder};
use crate::output;
use kvt_data::escape::one_line;
use kvt_data::text::counted;
use kvt_train::paint::save_index;
use kvt_train::plot::save_png;
use kvt_train::trained::{Seen, Segmenter};

pub(super) fn run(args: &Args, files: &[PathBuf], are_all: bool) -> anyhow::Result<ExitCode> {
    let out = args.output.as_deref();
    match out {
        None if !args.json => bail!(
            "this model labels pixels: `--out DIR` says where the painted images go, and `--json` prints which classes they have"
        ),
        Some(file) if super::is_table(file) => bail!(
            "`--output {}`: this model labels pixels, so it is a folder, and `--json` prints which classes the images have",
            file.display()
        ),
        Some(out) => results_folder(out)?,
        None => {}
    }
    let trained = args
        .trained
        .load_segmenter(&args.overrides)?
        .named(args.classes.as_deref())?;
    let progress = bar("painting", files.len());
    let (mut records, mut failed) = (Vec::new(), 0);
    for (number, path) in files.iter().enumerate() {
        let seen = trained.look(path).map_err(anyhow::Error::from);
        match &seen {
            Ok(seen) => {
                if let Some(out) = out {
                    let stem = path.file_stem().unwrap_or(path.as_os_str());
                    // The number distinguishes images of the same name in several folders.
                    let name = format!("{number:03}-{}.png", stem.to_string_lossy());
                    write(seen, &trained, args.masks, &out.join(name))?;
                }
            }
            Err(error) => {
                failed += 1;
                output::error(&one_line(&format!("{error:#}")));
            }
        }
        if args.json {
            let mut record = Map::new();
            record.insert("image".to_owned(), json!(path.display().to_string()));
            match seen.map(|seen| seen.json(&trained.classes)) {
                Ok(Value::Object(found)) => record.extend(found),
                Ok(_) => {}
                Err(error) => {
                    record.insert("error".to_owned(), json!(format!("{error:#}")));
                }
            }
            records.push(Value::from(record));
        }
        progress.inc(1);
    }
    drop(progress);
    if args.json {
        output::print(&format!("{:#}", Value::from(records)))?;
    }
    if let Some(out) = out {
        let what = if args.masks { "mask" } else { "painted image" };
        let done = counted(files.len() - failed, what);
        output::status(&format!("wrote {done} into `{}`", out.display()));
    }
    // As with classes: the other images are still painted, and the exit status reports the failure.
    Ok(if are_all && failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Writes the mask of an image, or the image with its classes painted over it.
fn write(seen: &Seen, trained: &Segmenter, is_mask: bool, path: &Path) -> anyhow::Result<()> {
    if is_mask {
        let map = &seen.prediction;
        return Ok(save_index(path, &map.labels, map.size)?);
    }
    Ok(save_png(path, &seen.drawn(&trained.classes)?)?)
}
