//! `kvt eval` of several labels for each image.

use serde_json::json;

use super::Args;
use crate::common::{check_result, counting};
use crate::output;
use crate::table::table;
use kvt_tools::trained::{LabelResults, Trained};
use kvt_train::task::check_classes;

/// The table of classes.
const TABLE: &str = "labels.csv";

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    args.refuse(
        "for one class per image: this model gives any number of labels, to the images of `--split`",
    )?;
    let trained = Trained::load(&args.trained.origin()?, true, &mut output::warning)?;
    // The data has the classes of the run, whatever they are called here.
    let images = args.images(&trained)?;
    check_classes(&trained.model.config(), &images.source)?;
    args.check_out(&trained.plan, &[TABLE])?;
    if let Some(out) = &args.out {
        // A table of labels, which is read, often has this name, too: that of any run stays.
        check_result(&out.join(TABLE), LabelResults::COLUMNS)?;
    }
    let progress = &mut counting("evaluating");
    let evaluation = trained.judge_labels(&images, progress, &mut output::warning)?;
    let trained = trained.named(args.classes.as_deref())?;
    let results = LabelResults {
        evaluation: &evaluation,
        images: &images.words,
        classes: trained.classes.as_ref().unwrap_or(&images.source.classes),
    };
    let mut json = results.json(args.per_class);
    // JSON cannot hold a path that is not UTF-8.
    let root = images.source.root.display().to_string();
    json["data"] = json!(root);
    let classes = table(LabelResults::HEADER, results.classes());
    args.save(TABLE, &results.csv())?;
    args.show(json, &results.text(), &classes)
}
