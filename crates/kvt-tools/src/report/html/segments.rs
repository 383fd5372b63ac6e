//! How a run labels pixels: mIoU and each class, and images under their right and their predicted classes.

use kvt_models::dense::upernet::UperNet;

use super::Report;
use super::images::Asked;
use super::judged::{Judged, per_class};
use super::markup::Markup;
use super::painted::LARGEST;
use crate::report::ReportError;
use crate::trained::Warn;
use kvt_train::plot::with_unit;
use kvt_train::run::Metric;
use kvt_train::task::SegmentEvaluation;

/// What a picture shows.
const NOTE: &str = "On the left the right classes, on the right those that the run predicts; bare pixels have no class.";

impl Report {
    /// Adds what is asked about a run that labels pixels.
    pub(super) fn ask_segments(
        &mut self,
        run: usize,
        asked: &Asked,
        progress: &mut dyn FnMut(usize, usize),
        warn: Warn<'_>,
    ) -> Result<(), ReportError> {
        let (trained, images) = self.open_dense::<UperNet>(run, asked, &mut |_, _| {}, warn)?;
        if asked.is_judged {
            let found = trained.judge(&images, progress, warn)?;
            let judged = Judged::new((run, asked), &images, &trained.classes, found);
            self.segmented.push(judged);
        }
        let paint = |index| {
            let seen = trained.look_at(&images, index)?;
            let right = seen.right();
            let words = right.map(|right| format!("{right:.1} % of the pixels right"));
            let picture = seen.shrunk(LARGEST).drawn(&trained.classes)?;
            Ok((picture, words.unwrap_or_default()))
        };
        self.add_painted(run, (asked, &images), NOTE, paint, warn)
    }
}

/// The results of a run.
pub(super) fn write(page: &mut Markup, judged: &Judged<SegmentEvaluation>) {
    let evaluation = &judged.found;
    let counts = &evaluation.counts;
    let text = format!(
        "mIoU {}, mean accuracy of the classes {}, accuracy of the pixels {}, loss {:.4} {}.",
        with_unit(Metric::MIOU, counts.miou()),
        with_unit(Metric::MACC, counts.macc()),
        with_unit(Metric::AACC, counts.aacc()),
        evaluation.loss,
        judged.on(evaluation.images),
    );
    page.sentence("p", &[], &text);
    let percent =
        |share: Option<f64>| share.map_or_else(|| "–".to_owned(), |x| format!("{x:.1} %"));
    let rows = judged.classes.iter().zip(&counts.rows).map(|(name, row)| {
        vec![
            name.clone(),
            percent(row.iou_percent()),
            percent(row.accuracy_percent()),
            row.images.to_string(),
            row.predicted.to_string(),
            row.right.to_string(),
        ]
    });
    let header = ["class", "IoU", "accuracy", "pixels", "predicted", "both"];
    per_class(page, header, rows.collect());
}
