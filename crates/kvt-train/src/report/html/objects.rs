//! How a run finds objects: the average precision of boxes and masks, of all and of each class, and images with what is there and what
//! is found.

use kvt_models::dense::mask_rcnn::MaskRcnn;

use super::Report;
use super::images::Asked;
use super::markup::Markup;
use super::segments::LARGEST;
use crate::error::TrainError;
use crate::plot::with_unit;
use crate::run::Metric;
use crate::task::{AveragePrecision, Scores};
use crate::trained::{LEAST_SCORE, Warn};

/// What a picture shows.
const NOTE: &str = "On the left the objects that are there, on the right those that the run finds with a score of at least 0.3.";

/// One run's results on all images of a split.
#[derive(Debug)]
pub struct Detected {
    /// The number of the run in the report.
    pub run: usize,
    /// Its checkpoint: `best`, `last` or a name.
    pub checkpoint: String,
    /// What the images are, to be put after their number.
    pub images: String,
    /// Average precision.
    pub scores: Scores,
}

impl Report {
    /// Adds what is asked about a run that finds objects.
    pub(super) fn ask_objects(
        &mut self,
        run: usize,
        asked: &Asked,
        progress: &mut dyn FnMut(usize, usize),
        warn: Warn<'_>,
    ) -> Result<(), TrainError> {
        let (trained, images) = self.open_dense::<MaskRcnn>(run, asked, &mut |_, _| {}, warn)?;
        if asked.is_judged {
            self.detected.push(Detected {
                run,
                checkpoint: asked.checkpoint.clone(),
                images: images.words.clone(),
                scores: trained.judge(&images, progress, warn)?.scores,
            });
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

/// All results, run by run.
pub(super) fn all(page: &mut Markup, report: &Report) {
    for detected in &report.detected {
        if report.records.len() > 1 {
            page.element("h3", &[], report.name(detected.run));
        }
        numbers(page, detected);
        by_class(page, &detected.scores);
    }
}

fn numbers(page: &mut Markup, detected: &Detected) {
    let scores = &detected.scores;
    let masks = scores.masks.as_ref();
    let all = [
        (Metric::BOX_AP, Some(&scores.boxes)),
        (Metric::MASK_AP, masks),
    ];
    let all = all.into_iter().filter_map(|(metric, of)| {
        let ap = 100.0 * of?.ap?;
        Some(format!("{} {}", metric.title, with_unit(metric, ap)))
    });
    let text = format!(
        "{} on {} {}, checkpoint `{}`, as pycocotools counts.",
        all.collect::<Vec<_>>().join(", "),
        scores.images,
        detected.images,
        detected.checkpoint,
    );
    page.sentence("p", &[], &text);
    page.folded("All twelve numbers", |page| {
        let rows = AveragePrecision::NAMES.iter().enumerate();
        let rows = rows.map(|(at, (_, words))| {
            let of = |of: &AveragePrecision| of.numbers().get(at).copied().flatten();
            (*words, scores.kinds().map(|(_, found)| of(found)).collect())
        });
        table(page, "in %", scores, rows);
    });
}

fn by_class(page: &mut Markup, scores: &Scores) {
    let title = format!("Per class ({})", scores.classes.len());
    page.folded(&title, |page| {
        let rows = scores.classes.iter().enumerate().map(|(at, name)| {
            let of = |of: &AveragePrecision| of.classes.get(at).copied().flatten();
            let own = scores.kinds().map(|(_, found)| of(found)).collect();
            (name.as_str(), own)
        });
        table(page, "AP of class", scores, rows);
    });
}

/// Shares of boxes and masks, in percent.
fn table<'a>(
    page: &mut Markup,
    first: &str,
    scores: &Scores,
    rows: impl Iterator<Item = (&'a str, Vec<Option<f64>>)>,
) {
    let percent =
        |share: Option<f64>| share.map_or_else(|| "–".to_owned(), |x| format!("{:.1}", 100.0 * x));
    page.table("numbers", |page| {
        page.header(std::iter::once(first).chain(scores.kinds().map(|(kind, _)| kind)));
        page.within("tbody", &[], |page| {
            for (name, shares) in rows {
                let cells: Vec<String> = shares.into_iter().map(percent).collect();
                page.row(name, cells.iter().map(String::as_str));
            }
        });
    });
}
