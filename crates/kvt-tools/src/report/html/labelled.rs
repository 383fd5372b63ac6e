//! How good the labels of a run are, and those of each class.

use super::judged::{Judged, per_class};
use super::markup::Markup;
use crate::trained::LabelResults;
use kvt_train::task::LabelEvaluation;

/// The results of a run.
pub(super) fn write(page: &mut Markup, judged: &Judged<LabelEvaluation>) {
    let results = LabelResults {
        evaluation: &judged.found,
        images: &judged.images,
        classes: &judged.classes,
    };
    for line in results.text().lines() {
        // A page shows two spaces as one.
        let line = line.replace("  (", " (").replace("  ", ", ");
        page.sentence("p", &[], &line);
    }
    let checkpoint = format!("Checkpoint `{}`.", judged.checkpoint);
    page.sentence("p", &[], &checkpoint);
    per_class(page, LabelResults::HEADER, results.classes());
}
