//! How a run labels pixels: mIoU and each class, and images under their right and their predicted classes.

use std::path::Path;

use image::RgbImage;

use super::images::Asked;
use super::markup::Markup;
use super::samples::data_uri;
use super::{Report, ReportError};
use crate::data::Split;
use crate::error::{TrainError, chain};
use crate::plot::with_unit;
use crate::run::Metric;
use crate::task::{SegmentEvaluation, TaskKind};
use crate::trained::{Images, Origin, Segmenter, TrainedError, Warn};

/// The longer side of an image in a page, in pixels: photographs of a camera would make it many megabytes.
const LARGEST: u32 = 1024;

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

/// An image under its classes.
#[derive(Debug)]
pub struct Painted {
    /// The number of the run in the report.
    pub run: usize,
    /// Its file.
    pub image: String,
    /// The image under the right classes, beside it under the predicted ones, with a legend.
    pub picture: RgbImage,
    /// The percentage of its labelled pixels that are right.
    pub right: Option<f64>,
}

impl Report {
    /// Whether a run labels pixels.
    pub(super) fn is_segmented(&self, run: usize) -> bool {
        let record = self.records.get(run);
        record.is_some_and(|record| record.plan.task == TaskKind::Segment)
    }

    /// The network and the images of a run that labels pixels.
    pub(super) fn open_segments(
        &self,
        run: usize,
        asked: &Asked,
        generating: &mut dyn FnMut(usize, usize),
        warn: Warn<'_>,
    ) -> Result<(Segmenter, Images), TrainError> {
        let path = self.records.get(run).map_or(Path::new(""), |run| &run.path);
        if asked.data.is_some() {
            return Err(TrainedError::FolderOfMasks(path.to_owned()).into());
        }
        let origin = Origin::Run {
            folder: path.to_owned(),
            checkpoint: asked.checkpoint.clone(),
            weights: asked.weights,
        };
        let trained = Segmenter::load(&origin, &asked.overrides, warn)?;
        let classes = Some(trained.classes.as_slice());
        let images = Images::of_split(Split::Val, &trained.plan, classes, generating, warn);
        let images = images.map_err(|error| TrainedError::Images {
            run: path.to_owned(),
            problem: chain(&error),
        })?;
        Ok((trained, images))
    }

    /// Adds what is asked about a run that labels pixels. An image that cannot be read is a remark.
    pub(super) fn ask_segments(
        &mut self,
        run: usize,
        asked: &Asked,
        progress: &mut dyn FnMut(usize, usize),
        warn: Warn<'_>,
    ) -> Result<(), TrainError> {
        let (trained, images) = self.open_segments(run, asked, &mut |_, _| {}, warn)?;
        if asked.is_judged {
            self.segmented.push(Segmented {
                run,
                checkpoint: asked.checkpoint.clone(),
                images: images.words.clone(),
                classes: trained.classes.clone(),
                evaluation: trained.judge(&images, progress, warn)?,
            });
        }
        for index in asked.places(images.source.samples.len()) {
            let seen = match trained.look_at(&images, index) {
                Ok(seen) => seen,
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
                picture: seen.shrunk(LARGEST).drawn(&trained.classes)?,
                right: seen.right(),
            });
        }
        Ok(())
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

/// Images under their classes, image by image, with those of all runs.
pub(super) fn painted(page: &mut Markup, report: &Report) -> Result<(), ReportError> {
    if report.painted.is_empty() {
        return Ok(());
    }
    let text = "On the left the right classes, on the right those that the run predicts; bare pixels have no class.";
    page.element("p", &[("class", "note")], text);
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
                    ("alt", "an image under its right and its predicted classes"),
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
                    if let Some(right) = painted.right {
                        page.element("span", &[], &format!("{right:.1} % of the pixels right"));
                    }
                });
            });
        }
    });
    Ok(())
}
