//! `kvt predict` of segmentation.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::Args;
use super::painted::{Answer, check, each};
use kvt_tools::paint::save_index;
use kvt_tools::trained::{Seen, Segmenter};
use kvt_train::plot::save_png;

pub(super) fn run(args: &Args, files: &[PathBuf], are_all: bool) -> anyhow::Result<ExitCode> {
    let answer = Answer {
        does: "labels pixels",
        json: "which classes the images have",
        file: if args.masks { "mask" } else { "painted image" },
    };
    check(args, &answer)?;
    let trained: Segmenter = args.trained.load_dense()?;
    let trained = trained.named(args.classes.as_deref())?;
    each(
        args,
        (files, are_all),
        &answer,
        |path| Ok(trained.look(path)?),
        |seen, path| write(seen, &trained, args.masks, path),
        |seen| seen.json(&trained.classes),
    )
}

/// Writes the mask of an image, or the image with its classes painted over it.
fn write(seen: &Seen, trained: &Segmenter, is_mask: bool, path: &Path) -> anyhow::Result<()> {
    if is_mask {
        let map = &seen.prediction;
        return Ok(save_index(path, &map.labels, map.size)?);
    }
    Ok(save_png(path, &seen.drawn(&trained.classes)?)?)
}
