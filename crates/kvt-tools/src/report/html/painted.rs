//! Runs that label pixels, and runs that find objects: their results, and images with what is right and what the run says.

use image::RgbImage;
use kvt_models::dense::mask_rcnn::MaskRcnn;
use kvt_models::dense::upernet::UperNet;

use super::images::{Asked, validation_images};
use super::judged::{Judged, per_class};
use super::markup::Markup;
use super::samples::{data_uri, file};
use super::{Report, ReportError};
use crate::groups::{grouped, unique};
use crate::trained::{Images, LEAST_SCORE, TrainedDense, TrainedError, Warn};
use kvt_train::error::{TrainError, chain};
use kvt_train::plot::with_unit;
use kvt_train::run::Metric;
use kvt_train::task::{DenseNetwork, Scores, SegmentEvaluation, TaskKind};

/// The longer side of an image in a page, in pixels: photographs of a camera would make it many megabytes.
const LARGEST: u32 = 1024;

/// What a picture shows of a run that labels pixels.
const NOTE_SEGMENTS: &str = "On the left the right classes, on the right those that the run predicts; bare pixels have no class.";
/// What a picture shows of a run that finds objects.
const NOTE_OBJECTS: &str = "On the left the objects that are there, on the right those that the run finds with a score of at least 0.3.";

/// An image under its classes, or with its objects.
#[derive(Debug)]
pub struct Painted {
    /// The number of the run in the report.
    pub run: usize,
    /// Its file.
    pub image: String,
    /// The image under the right classes or with the right objects, beside it with what the run says.
    pub picture: RgbImage,
    /// How right the run is, in words.
    pub words: String,
    /// What the picture shows, in words.
    pub note: &'static str,
}

impl Report {
    /// The task of a run.
    pub(super) fn task(&self, run: usize) -> Option<TaskKind> {
        self.records.get(run).map(|record| record.plan.task)
    }

    /// The network and the images of a run that labels pixels or finds objects.
    pub(super) fn open_dense<N: DenseNetwork>(
        &self,
        run: usize,
        asked: &Asked,
        generating: &mut dyn FnMut(usize, usize),
        warn: Warn<'_>,
    ) -> Result<(TrainedDense<N>, Images), ReportError> {
        let path = self.path(run);
        if asked.data.is_some() {
            let (does, have) = match self.task(run) {
                Some(TaskKind::Detect) => ("finds objects", "annotations"),
                _ => ("labels pixels", "masks"),
            };
            return Err(TrainedError::DenseFolder(path.to_owned(), does, have).into());
        }
        let trained = TrainedDense::load(&asked.origin(path), warn)?;
        let classes = Some(trained.classes.as_slice());
        let images = validation_images(path, &trained.plan, classes, generating, warn)?;
        Ok((trained, images))
    }

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
        self.add_painted(run, (asked, &images), NOTE_SEGMENTS, paint, warn)
    }

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
        self.add_painted(run, (asked, &images), NOTE_OBJECTS, paint, warn)
    }

    /// Adds images that `paint` makes a picture and words of, by their places. An image that cannot be read or prepared is a remark.
    fn add_painted(
        &mut self,
        run: usize,
        (asked, images): (&Asked, &Images),
        note: &'static str,
        paint: impl Fn(u32) -> Result<(RgbImage, String), ReportError>,
        warn: Warn<'_>,
    ) -> Result<(), ReportError> {
        for index in asked.places(images.source.samples.len()) {
            let (picture, words) = match paint(index) {
                Ok(painted) => painted,
                Err(ReportError::Trained(TrainedError::Train(error)))
                    if matches!(*error, TrainError::Data(_)) =>
                {
                    self.remark(chain(&*error), warn);
                    continue;
                }
                Err(error) => return Err(error),
            };
            self.painted.push(Painted {
                run,
                image: images.path(index).display().to_string(),
                picture,
                words,
                note,
            });
        }
        Ok(())
    }
}

/// The results of a run that labels pixels: mIoU and each class.
pub(super) fn write_segments(page: &mut Markup, judged: &Judged<SegmentEvaluation>) {
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

/// The results of a run that finds objects: the average precision of boxes and masks, of all and of each class.
pub(super) fn write_objects(page: &mut Markup, judged: &Judged<Scores>) {
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

/// Painted images, image by image, with those of all runs.
pub(super) fn painted(page: &mut Markup, report: &Report) -> Result<(), ReportError> {
    if report.painted.is_empty() {
        return Ok(());
    }
    for note in unique(report.painted.iter().map(|painted| painted.note)) {
        page.note(note);
    }
    let images = report.painted.iter();
    let images = grouped(images.map(|painted| (painted.image.as_str(), painted)));
    page.within("div", &[("class", "cards")], |page| {
        for painted in images.into_iter().flat_map(|(_, all)| all) {
            let uri = data_uri(&painted.picture)?;
            page.within("figure", &[("class", "card broad")], |page| {
                let words = "what is right in an image, and what the run predicts";
                page.image("picture broad", &uri, words, &painted.image);
                page.within("figcaption", &[], |page| {
                    if report.records.len() > 1 {
                        page.element("strong", &[], report.name(painted.run));
                    }
                    page.element("span", &[("class", "file")], file(&painted.image));
                    if !painted.words.is_empty() {
                        page.element("span", &[], &painted.words);
                    }
                });
            });
        }
        Ok(())
    })
}
