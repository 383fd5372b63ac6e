//! `kvt eval` of detection.

use std::process::ExitCode;

use anyhow::bail;
use serde_json::{Value, json};

use super::Args;
use crate::common::{counting, generating, split_name};
use crate::output;
use crate::table::{class_scores_table, scores_table};
use kvt_data::fs::{check_writable, write_text};
use kvt_data::text::counted;
use kvt_train::trained::Images;

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let without = [
        ("--data", args.data.is_some()),
        ("--only", args.only.is_some()),
        ("--real", args.real.is_some()),
    ];
    if let Some((option, _)) = without.iter().find(|(_, is_given)| *is_given) {
        bail!(
            "`{option}` is for classifiers: this model finds objects, in the images of `--split`"
        );
    }
    if let Some(out) = &args.out {
        let is_json = out.extension().is_some_and(|ending| ending == "json");
        if !is_json {
            bail!(
                "`--out` is `{}`: of detection, expected a file that ends in `.json`",
                out.display()
            );
        }
        // Check the file before evaluating the images.
        check_writable(out)?;
    }
    let trained = args.trained.load_detector(&args.overrides)?;
    let (plan, classes) = (&trained.plan, Some(trained.classes.as_slice()));
    let warn = &mut output::warning;
    let images = Images::of_split(args.split, plan, classes, &mut generating(), warn)?;
    // The data has the classes of the run, whatever they are called here.
    let trained = trained.named(args.classes.as_deref())?;
    let evaluation = trained.judge(&images, &mut counting("evaluating"), warn)?;
    let scores = &evaluation.scores;
    if let Some(out) = &args.out {
        let results: Vec<Value> = evaluation.results().collect();
        write_text(out, &Value::from(results).to_string())?;
    }
    if args.json {
        let mut json = scores.json(args.per_class);
        json.insert("split".to_owned(), json!(split_name(args.split)));
        output::print(&format!("{:#}", Value::from(json)))?;
    } else {
        output::print(&format!(
            "{} in {} {}, as pycocotools counts, in percent\n\n{}",
            counted(scores.detections, "detection"),
            scores.images,
            images.words,
            scores_table(scores)
        ))?;
        if args.per_class {
            output::print(&format!("\n{}", class_scores_table(scores)))?;
        }
    }
    if let Some(out) = &args.out {
        output::status(&format!("wrote `{}`", out.display()));
    }
    Ok(ExitCode::SUCCESS)
}
