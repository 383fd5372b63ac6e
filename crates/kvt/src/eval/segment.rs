//! `kvt eval` of segmentation.

use std::process::ExitCode;

use anyhow::bail;
use serde_json::{Value, json};

use super::Args;
use crate::common::{counting, generating, results_folder, split_name};
use crate::output;
use crate::table::table;
use kvt_data::fs::{check_writable, write_text};
use kvt_train::trained::{Images, SegmentResults};

/// The table of classes.
const TABLE: &str = "iou.csv";

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let without = [
        ("--data", args.data.is_some()),
        ("--only", args.only.is_some()),
        ("--real", args.real.is_some()),
    ];
    if let Some((option, _)) = without.iter().find(|(_, is_given)| *is_given) {
        bail!(
            "`{option}` is for classifiers: this model labels pixels, of the images of `--split`"
        );
    }
    let trained = args.trained.load_segmenter(&args.overrides)?;
    let (plan, classes) = (&trained.plan, Some(trained.classes.as_slice()));
    let warn = &mut output::warning;
    let images = Images::of_split(args.split, plan, classes, &mut generating(), warn)?;
    // The data has the classes of the run, whatever they are called here.
    let trained = trained.named(args.classes.as_deref())?;
    if let Some(out) = &args.out {
        results_folder(out)?;
        // Check the file before evaluating the images.
        check_writable(&out.join(TABLE))?;
    }
    let evaluation = trained.judge(&images, &mut counting("evaluating"), warn)?;
    let results = SegmentResults {
        evaluation: &evaluation,
        images: &images,
        classes: &trained.classes,
    };
    if let Some(out) = &args.out {
        write_text(&out.join(TABLE), &results.csv())?;
    }
    if args.json {
        let mut json = results.json(args.per_class);
        json.insert("split".to_owned(), json!(split_name(args.split)));
        output::print(&format!("{:#}", Value::from(json)))?;
    } else {
        output::print(&results.text())?;
        if args.per_class {
            let header = ["class", "IoU", "accuracy", "of all pixels"];
            output::print(&format!("\n{}", table(&header, results.classes())))?;
        }
    }
    if let Some(out) = &args.out {
        output::status(&format!("wrote `{}`", out.join(TABLE).display()));
    }
    Ok(ExitCode::SUCCESS)
}
