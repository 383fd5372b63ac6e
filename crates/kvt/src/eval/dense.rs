//! `kvt eval` of segmentation and detection.

use anyhow::bail;
use serde_json::Value;

use super::{Args, save};
use crate::common::{check_result, counting};
use crate::output;
use crate::table::{class_scores_table, scores_text, table};
use kvt_tools::trained::{Detector, SegmentResults, Segmenter};

/// The table of classes of pixels.
const TABLE: &str = "iou.csv";

/// Judges a network that labels pixels.
pub(super) fn segment(args: &Args) -> anyhow::Result<()> {
    args.refuse("for classifiers: this model labels pixels, of the images of `--split`")?;
    let trained = Segmenter::load(&args.trained.origin()?, &mut output::warning)?;
    let images = args.of_split(&trained.plan, Some(&trained.classes))?;
    // The data has the classes of the run, whatever they are called here.
    let trained = trained.named(args.classes.as_deref())?;
    args.check_out(&trained.plan, &[TABLE])?;
    let evaluation = trained.judge(&images, &mut counting("evaluating"), &mut output::warning)?;
    let results = SegmentResults {
        evaluation: &evaluation,
        images: &images,
        classes: &trained.classes,
    };
    let header = ["class", "IoU", "accuracy", "of all pixels"];
    let classes = table(header, results.classes());
    args.save(TABLE, &results.csv())?;
    args.show(results.json(args.per_class), &results.text(), &classes)
}

/// Judges a network that finds objects.
pub(super) fn detect(args: &Args) -> anyhow::Result<()> {
    args.refuse("for classifiers: this model finds objects, in the images of `--split`")?;
    if let Some(out) = &args.out {
        let is_json = out.extension().is_some_and(|ending| ending == "json");
        if !is_json {
            bail!(
                "`--out` is `{}`: of detection, expected a file that ends in `.json`",
                out.display()
            );
        }
        // Check the file before evaluating the images. Annotations are an object, detections a list.
        check_result(out, "[")?;
    }
    let trained = Detector::load(&args.trained.origin()?, &mut output::warning)?;
    let images = args.of_split(&trained.plan, Some(&trained.classes))?;
    // The data has the classes of the run, whatever they are called here.
    let trained = trained.named(args.classes.as_deref())?;
    let evaluation = trained.judge(&images, &mut counting("evaluating"), &mut output::warning)?;
    let scores = &evaluation.scores;
    // As `Args::save`, before results are printed.
    if let Some(out) = &args.out {
        let results: Vec<Value> = evaluation.results().collect();
        save(out, &Value::from(results).to_string())?;
    }
    let text = scores_text(scores, &format!("{} {}", scores.images, images.words));
    let json = scores.json(args.per_class).into();
    args.show(json, &text, &class_scores_table(scores))
}
