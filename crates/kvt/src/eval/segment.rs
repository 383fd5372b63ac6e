//! `kvt eval` of segmentation.

use super::Args;
use crate::common::counting;
use crate::output;
use crate::table::table;
use kvt_data::fs::write_text;
use kvt_tools::trained::{SegmentResults, Segmenter};

/// The table of classes.
const TABLE: &str = "iou.csv";

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    args.refuse("for classifiers: this model labels pixels, of the images of `--split`")?;
    let trained: Segmenter = args.trained.load_dense()?;
    let images = args.of_split(&trained.plan, Some(&trained.classes))?;
    // The data has the classes of the run, whatever they are called here.
    let trained = trained.named(args.classes.as_deref())?;
    args.check_out(&[TABLE])?;
    let evaluation = trained.judge(&images, &mut counting("evaluating"), &mut output::warning)?;
    let results = SegmentResults {
        evaluation: &evaluation,
        images: &images,
        classes: &trained.classes,
    };
    if let Some(out) = &args.out {
        write_text(&out.join(TABLE), &results.csv())?;
    }
    let header = ["class", "IoU", "accuracy", "of all pixels"];
    let classes = || table(header, results.classes());
    args.show(|| results.json(args.per_class), || results.text(), classes)?;
    args.wrote(Some(TABLE))
}
