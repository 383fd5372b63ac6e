//! `kvt eval` of several labels for each image.

use std::process::ExitCode;

use anyhow::bail;
use serde_json::{Value, json};

use super::Args;
use crate::common::{counting, results_folder, split_name};
use crate::output;
use crate::table::table;
use kvt_data::fs::{check_writable, write_text};
use kvt_train::task::check_classes;
use kvt_train::trained::LabelResults;

/// The table of classes.
const TABLE: &str = "labels.csv";

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let without = [
        ("--data", args.data.is_some()),
        ("--only", args.only.is_some()),
        ("--real", args.real.is_some()),
    ];
    if let Some((option, _)) = without.iter().find(|(_, is_given)| *is_given) {
        bail!(
            "`{option}` is for one class per image: this model gives any number of labels, to the images of `--split`"
        );
    }
    let trained = args.trained.load(&args.overrides)?;
    // The data has the classes of the run, whatever they are called here.
    let images = args.images(&trained)?;
    check_classes(&trained.model.config(), &images.source)?;
    if let Some(out) = &args.out {
        results_folder(out)?;
        // Check the file before evaluating the images.
        check_writable(&out.join(TABLE))?;
    }
    let progress = &mut counting("evaluating");
    let evaluation = trained.judge_labels(&images, progress, &mut output::warning)?;
    let trained = trained.named(args.classes.as_deref())?;
    let results = LabelResults {
        evaluation: &evaluation,
        images: &images.words,
        classes: trained.classes.as_ref().unwrap_or(&images.source.classes),
    };
    if let Some(out) = &args.out {
        write_text(&out.join(TABLE), &results.csv())?;
    }
    if args.json {
        let mut json = results.json(args.per_class);
        // JSON cannot hold a path that is not UTF-8.
        let root = images.source.root.display().to_string();
        json.insert("data".to_owned(), json!(root));
        json.insert("split".to_owned(), json!(split_name(args.split)));
        output::print(&format!("{:#}", Value::from(json)))?;
    } else {
        output::print(&results.text())?;
        if args.per_class {
            let rows = table(&LabelResults::HEADER, results.classes());
            output::print(&format!("\n{rows}"))?;
        }
    }
    if let Some(out) = &args.out {
        output::status(&format!("wrote `{}`", out.join(TABLE).display()));
    }
    Ok(ExitCode::SUCCESS)
}
