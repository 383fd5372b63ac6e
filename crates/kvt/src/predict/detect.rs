//! `kvt predict` of detection.

use std::path::PathBuf;
use std::process::ExitCode;

use super::Args;
use super::painted::{Answer, check, each};
use kvt_train::plot::save_png;
use kvt_train::trained::LEAST_SCORE;

pub(super) fn run(args: &Args, files: &[PathBuf], are_all: bool) -> anyhow::Result<ExitCode> {
    let answer = Answer {
        does: "finds objects",
        json: "their classes, scores, boxes and masks",
        file: "painted image",
    };
    check(args, &answer)?;
    let trained = args
        .trained
        .load_detector(&args.overrides)?
        .named(args.classes.as_deref())?;
    let least = args.min_score.unwrap_or(LEAST_SCORE);
    each(
        args,
        (files, are_all),
        &answer,
        |path| Ok(trained.look(path)?),
        |spotted, path| {
            Ok(save_png(
                path,
                &spotted.drawn(&trained.classes, least, None)?,
            )?)
        },
        |spotted| spotted.json(&trained.classes),
    )
}
