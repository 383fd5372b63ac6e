//! How a run labels pixels: mIoU and each class, and images under their right and their predicted classes. Also what is alike for runs
//! that find objects: their models, and how painted images are shown.

use std::path::Path;

use image::RgbImage;
use kvt_models::dense::upernet::UperNet;

use super::images::Asked;
use super::markup::Markup;
use super::samples::data_uri;
use super::{Report, ReportError};
use crate::data::Split;
use crate::error::{TrainError, chain};
use crate::plot::with_unit;
use crate::run::Metric;
use crate::task::{DenseNetwork, SegmentEvaluation, TaskKind};
use crate::trained::{Images, Origin, TrainedDense, TrainedError, Warn};

/// The longer side of an image in a page, in pixels: photographs of a camera would make it many megabytes.
pub(super) const LARGEST: u32 = 1024;
/// What a picture shows.
const NOTE: &str = "On the left the right classes, on the right those that the run predicts; bare pixels have no class.";

/// One run's results on all images of a split.
#[derive(Debug)]
pub struct Segmented {
    /// The number of the run in the report.
    pub run: usize,
    /// Its checkpoint: `best`, `last` or a name.
    pub checkpoint: String,
    /// What the images are, to be put after their number.
    pub images: String,
    /// The classes in label order.
    pub classes: Vec<String>,
    /// Counts of pixels and loss.
    pub evaluation: SegmentEvaluation,
}

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
    ) -> Result<(TrainedDense<N>, Images), TrainError> {
        let path = self.records.get(run).map_or(Path::new(""), |run| &run.path);
        if asked.data.is_some() {
            return Err(match self.task(run) {
                Some(TaskKind::Detect) => TrainedError::FolderOfObjects(path.to_owned()),
                _ => TrainedError::FolderOfMasks(path.to_owned()),
            }
            .into());
        }
        let origin = Origin::Run {
            folder: path.to_owned(),
            checkpoint: asked.checkpoint.clone(),
            weights: asked.weights,
        };
        let trained = TrainedDense::load(&origin, &asked.overrides, warn)?;
        let classes = Some(trained.classes.as_slice());
        let images = Images::of_split(Split::Val, &trained.plan, classes, generating, warn);
        let images = images.map_err(|error| TrainedError::Images {
            run: path.to_owned(),
            problem: chain(&error),
        })?;
        Ok((trained, images))
    }

    /// Adds images that `paint` makes a picture and words of, by their places. An image that cannot be read is a remark.
    pub(super) fn add_painted(
        &mut self,
        run: usize,
        (asked, images): (&Asked, &Images),
        note: &'static str,
        paint: impl Fn(u32) -> Result<(RgbImage, String), TrainError>,
        warn: Warn<'_>,
    ) -> Result<(), TrainError> {
        for index in asked.places(images.source.samples.len()) {
            let (picture, words) = match paint(index) {
                Ok(painted) => painted,
                Err(TrainError::Data(error)) => {
                    self.remark(chain(&error.into()), warn);
                    continue;
                }
                Err(error) => return Err(error),
            };
            let sample = images.source.samples.get(index as usize);
            self.painted.push(Painted {
                run,
                image: sample.map_or_else(String::new, |one| one.path.display().to_string()),
                picture,
                words,
                note,
            });
        }
        Ok(())
    }

    /// Adds what is asked about a run that labels pixels.
    pub(super) fn ask_segments(
        &mut self,
        run: usize,
        asked: &Asked,
        progress: &mut dyn FnMut(usize, usize),
        warn: Warn<'_>,
    ) -> Result<(), TrainError> {
        let (trained, images) = self.open_dense::<UperNet>(run, asked, &mut |_, _| {}, warn)?;
        if asked.is_judged {
            self.segmented.push(Segmented {
                run,
                checkpoint: asked.checkpoint.clone(),
                images: images.words.clone(),
                classes: trained.classes.clone(),
                evaluation: trained.judge(&images, progress, warn)?,
            });
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

/// All results, run by run.
pub(super) fn all(page: &mut Markup, report: &Report) {
    for segmented in &report.segmented {
        if report.records.len() > 1 {
            page.element("h3", &[], report.name(segmented.run));
        }
        numbers(page, segmented);
        by_class(page, segmented);
    }
}

fn numbers(page: &mut Markup, segmented: &Segmented) {
    let evaluation = &segmented.evaluation;
    let counts = &evaluation.counts;
    let text = format!(
        "mIoU {}, mean accuracy of the classes {}, accuracy of the pixels {}, loss {:.4} on {} {}, checkpoint `{}`.",
        with_unit(Metric::MIOU, counts.miou()),
        with_unit(Metric::MACC, counts.macc()),
        with_unit(Metric::AACC, counts.aacc()),
        evaluation.loss(),
        evaluation.images,
        segmented.images,
        segmented.checkpoint,
    );
    page.sentence("p", &[], &text);
}

fn by_class(page: &mut Markup, segmented: &Segmented) {
    let percent =
        |share: Option<f64>| share.map_or_else(|| "–".to_owned(), |x| format!("{x:.1} %"));
    let counts = &segmented.evaluation.counts;
    let title = format!("Per class ({})", segmented.classes.len());
    page.folded(&title, |page| {
        page.table("numbers", |page| {
            page.header(["class", "IoU", "accuracy", "pixels", "predicted", "both"]);
            page.within("tbody", &[], |page| {
                for (class, name) in segmented.classes.iter().enumerate() {
                    let cells = [
                        percent(counts.iou(class)),
                        percent(counts.accuracy(class)),
                        counts.labelled(class).to_string(),
                        counts.predicted(class).to_string(),
                        counts.intersection(class).to_string(),
                    ];
                    page.row(name, cells.iter().map(String::as_str));
                }
            });
        });
    });
}

/// Painted images, image by image, with those of all runs.
pub(super) fn painted(page: &mut Markup, report: &Report) -> Result<(), ReportError> {
    if report.painted.is_empty() {
        return Ok(());
    }
    let mut notes: Vec<&str> = Vec::new();
    for painted in &report.painted {
        if !notes.contains(&painted.note) {
            page.element("p", &[("class", "note")], painted.note);
            notes.push(painted.note);
        }
    }
    let mut images: Vec<&str> = Vec::new();
    for painted in &report.painted {
        if !images.contains(&painted.image.as_str()) {
            images.push(&painted.image);
        }
    }
    let mut uris = Vec::new();
    for image in images {
        for painted in report.painted.iter().filter(|one| one.image == image) {
            uris.push((painted, data_uri(&painted.picture)?));
        }
    }
    page.within("div", &[("class", "cards")], |page| {
        for (painted, uri) in &uris {
            page.within("figure", &[("class", "card broad")], |page| {
                let attributes = [
                    ("class", "picture broad"),
                    ("src", &**uri),
                    (
                        "alt",
                        "what is right in an image, and what the run predicts",
                    ),
                    ("title", &*painted.image),
                ];
                page.void("img", &attributes);
                page.within("figcaption", &[], |page| {
                    if report.records.len() > 1 {
                        page.element("strong", &[], report.name(painted.run));
                    }
                    let file = Path::new(&painted.image).file_name();
                    let file = file
                        .and_then(|name| name.to_str())
                        .unwrap_or(&painted.image);
                    page.element("span", &[("class", "file")], file);
                    if !painted.words.is_empty() {
                        page.element("span", &[], &painted.words);
                    }
                });
            });
        }
    });
    Ok(())
}
