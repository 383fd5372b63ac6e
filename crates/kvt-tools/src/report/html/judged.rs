//! What runs come to on all images of a split.

use super::markup::Markup;
use super::{Asked, Report};
use crate::trained::Images;

/// One run's results on all images of a split.
#[derive(Debug)]
pub struct Judged<T> {
    /// The number of the run in the report.
    pub run: usize,
    /// Its checkpoint: `best`, `last` or a name.
    pub checkpoint: String,
    /// What the images are, to be put after their number.
    pub images: String,
    /// The classes in label order.
    pub classes: Vec<String>,
    /// The results.
    pub found: T,
}

impl<T> Judged<T> {
    pub(super) fn new(
        (run, asked): (usize, &Asked),
        images: &Images,
        classes: &[String],
        found: T,
    ) -> Self {
        Self {
            run,
            checkpoint: asked.checkpoint.clone(),
            images: images.words.clone(),
            classes: classes.to_vec(),
            found,
        }
    }

    /// Which images were judged, and by which checkpoint: the end of a clause.
    pub(super) fn on(&self, images: usize) -> String {
        format!(
            "on {images} {}, checkpoint `{}`",
            self.images, self.checkpoint
        )
    }
}

/// The results of all runs of a task.
pub(super) fn all<T>(
    page: &mut Markup,
    report: &Report,
    judged: &[Judged<T>],
    write: impl Fn(&mut Markup, &Judged<T>),
) {
    for one in judged {
        if report.records.len() > 1 {
            page.element("h3", &[], report.name(one.run));
        }
        write(page, one);
    }
}

/// A table with a row for each class, folded.
pub(super) fn per_class<'a>(
    page: &mut Markup,
    header: impl IntoIterator<Item = &'a str>,
    rows: Vec<Vec<String>>,
) {
    page.folded(&format!("Per class ({})", rows.len()), |page| {
        page.numbers(header, rows);
    });
}
