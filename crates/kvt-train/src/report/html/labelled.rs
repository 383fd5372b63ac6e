//! How good the labels of a run are, and those of each class.

use super::Report;
use super::markup::Markup;
use crate::task::LabelEvaluation;
use crate::trained::LabelResults;

/// One run's results on all images of a split.
#[derive(Debug)]
pub struct Labelled {
    /// The number of the run in the report.
    pub run: usize,
    /// Its checkpoint: `best`, `last` or a name.
    pub checkpoint: String,
    /// What the images are, to be put after their number.
    pub images: String,
    /// The classes in label order.
    pub classes: Vec<String>,
    /// Over all images, and class by class.
    pub evaluation: LabelEvaluation,
}

/// All results, run by run.
pub(super) fn all(page: &mut Markup, report: &Report) {
    for labelled in &report.labelled {
        if report.records.len() > 1 {
            page.element("h3", &[], report.name(labelled.run));
        }
        let results = LabelResults {
            evaluation: &labelled.evaluation,
            images: &labelled.images,
            classes: &labelled.classes,
        };
        for line in results.text().lines() {
            page.sentence("p", &[], line);
        }
        let checkpoint = format!("Checkpoint `{}`.", labelled.checkpoint);
        page.sentence("p", &[], &checkpoint);
        let title = format!("Per class ({})", labelled.classes.len());
        page.folded(&title, |page| {
            page.table("numbers", |page| {
                page.header(LabelResults::HEADER);
                page.within("tbody", &[], |page| {
                    for row in results.classes() {
                        let mut cells = row.iter().map(String::as_str);
                        page.row(cells.next().unwrap_or_default(), cells);
                    }
                });
            });
        });
    }
}
