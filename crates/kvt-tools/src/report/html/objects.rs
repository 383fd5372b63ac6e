//! How a run finds objects: the average precision of boxes and masks, of all and of each class, and images with what is there and what
//! is found.

use kvt_models::dense::mask_rcnn::MaskRcnn;

use super::Report;
use super::images::Asked;
use super::judged::{Judged, per_class};
use super::markup::Markup;
use super::painted::LARGEST;
use crate::report::ReportError;
use crate::trained::{LEAST_SCORE, Warn};
use kvt_train::plot::with_unit;
use kvt_train::run::Metric;
use kvt_train::task::Scores;

/// What a picture shows.
const NOTE: &str = "On the left the objects that are there, on the right those that the run finds with a score of at least 0.3.";

impl Report {
    /// Adds what is asked about a run that finds objects.
    pub(super) fn ask_objects(
        &mut self,
        run: usize,
        asked: &Asked,
        progress: &mut dyn FnMut(usize, usize),
        warn: Warn<'_>,
    ) -> Result<(), ReportError> {
        let (trained, images) = self.open_dense::<MaskRcnn>(run, asked, &mut |_, _| {}, warn)?;
        if asked.is_judged {
            let found = trained.judge(&images, progress, warn)?.scores;
            let judged = Judged::new((run, asked), &images, &trained.classes, found);
            self.detected.push(judged);
        }
        let paint = |index| {
            let spotted = trained.look_at(&images, index)?;
            let there = spotted.truth.as_ref().map_or(0, Vec::len);
            let words = format!("{there} there, {} found", spotted.count(LEAST_SCORE));
            let picture = spotted.drawn(&trained.classes, LEAST_SCORE, Some(LARGEST))?;
            Ok((picture, words))
        };
        self.add_painted(run, (asked, &images), NOTE, paint, warn)
    }
}

/// The results of a run.
pub(super) fn write(page: &mut Markup, judged: &Judged<Scores>) {
    let scores = &judged.found;
    let all = [
        (Metric::BOX_AP, Some(&scores.boxes)),
        (Metric::MASK_AP, scores.masks.as_ref()),
    ];
    let all = all.into_iter().filter_map(|(metric, of)| {
        let ap = 100.0 * of?.ap?;
        Some(format!("{} {}", metric.title, with_unit(metric, ap)))
    });
    let text = format!(
        "{} {}, as pycocotools counts.",
        all.collect::<Vec<_>>().join(", "),
        judged.on(scores.images),
    );
    page.sentence("p", &[], &text);
    page.folded("All twelve numbers", |page| {
        page.numbers(scores.header("in %"), scores.rows("–"));
    });
    per_class(page, scores.header("AP of class"), scores.class_rows("–"));
}
