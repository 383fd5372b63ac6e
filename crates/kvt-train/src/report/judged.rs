//! A judgement as files.

use std::path::Path;

use super::{ReportError, draw_confusion};
use crate::data::Source;
use crate::judge::Judgement;
use kvt_data::fs::write_text;

const CLASSES: &str = "classes.csv";
const CONFUSION: &str = "confusion.csv";
const PICTURE: &str = "confusion.png";
const PREDICTIONS: &str = "predictions.csv";

impl Judgement {
    /// The files that [`save`](Self::save) writes.
    pub const FILES: [&str; 4] = [CLASSES, CONFUSION, PICTURE, PREDICTIONS];

    /// Writes the judgement on the images of `source` into a folder: each class, the confusion matrix, also as a picture under a
    /// title, and each image.
    ///
    /// # Errors
    /// Failures of drawing and of the file system.
    pub fn save(&self, source: &Source, title: &str, folder: &Path) -> Result<(), ReportError> {
        write_text(&folder.join(PREDICTIONS), &self.predictions_csv(source))?;
        self.save_confusion(&source.classes, title, folder)
    }

    /// Writes the same without the single images.
    pub(super) fn save_confusion(
        &self,
        classes: &[String],
        title: &str,
        folder: &Path,
    ) -> Result<(), ReportError> {
        write_text(&folder.join(CLASSES), &self.classes_csv(classes))?;
        write_text(&folder.join(CONFUSION), &self.confusion_csv(classes))?;
        let cells: Vec<_> = self
            .cells()
            .map(|cell| ([cell.label, cell.predicted], cell.images))
            .collect();
        draw_confusion(&cells, classes, title, &folder.join(PICTURE))
    }
}
