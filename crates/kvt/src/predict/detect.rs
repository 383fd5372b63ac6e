//! `kvt predict` of detection.

use std::cell::Cell;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;

use super::Args;
use super::painted::{Answer, check, each};
use crate::output;
use kvt_data::text::counted;
use kvt_tools::trained::{Detector, LEAST_SCORE};
use kvt_train::plot::save_png;

pub(super) fn run(args: &Args, files: &[PathBuf], are_all: bool) -> anyhow::Result<ExitCode> {
    let answer = Answer {
        does: "finds objects",
        json: "their classes, scores, boxes and masks",
        file: "painted image",
    };
    check(args, &answer)?;
    let trained: Detector = args.trained.load_dense()?;
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
        &answer,
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
