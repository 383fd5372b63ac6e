//! What is alike for runs that label pixels and runs that find objects: their models, and how painted images are shown.

use image::RgbImage;

use super::images::{Asked, validation_images};
use super::markup::Markup;
use super::samples::{data_uri, file};
use super::{Report, ReportError};
use crate::groups::{grouped, unique};
use crate::trained::{Images, TrainedDense, TrainedError, Warn};
use kvt_train::error::{TrainError, chain};
use kvt_train::task::{DenseNetwork, TaskKind};

/// The longer side of an image in a page, in pixels: photographs of a camera would make it many megabytes.
pub(super) const LARGEST: u32 = 1024;

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
        let trained = TrainedDense::load(&asked.origin(path), &asked.overrides, warn)?;
        let classes = Some(trained.classes.as_slice());
        let images = validation_images(path, &trained.plan, classes, generating, warn)?;
        Ok((trained, images))
    }

    /// Adds images that `paint` makes a picture and words of, by their places. An image that cannot be read is a remark.
    pub(super) fn add_painted(
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
    let mut uris = Vec::new();
    for painted in images.into_iter().flat_map(|(_, all)| all) {
        uris.push((painted, data_uri(&painted.picture)?));
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
                    page.element("span", &[("class", "file")], file(&painted.image));
                    if !painted.words.is_empty() {
                        page.element("span", &[], &painted.words);
                    }
                });
            });
        }
    });
    Ok(())
}
