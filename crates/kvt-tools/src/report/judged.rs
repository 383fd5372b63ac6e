//! A judgement as files.

use std::path::Path;

use super::{ReportError, draw_confusion};
use kvt_data::Source;
use kvt_data::fs::write_text;
use kvt_train::judge::Judgement;

const CLASSES: &str = "classes.csv";
const CONFUSION: &str = "confusion.csv";
const PICTURE: &str = "confusion.png";
const PREDICTIONS: &str = "predictions.csv";

/// The files that [`save_judgement`] writes.
pub const JUDGEMENT_FILES: [&str; 4] = [CLASSES, CONFUSION, PICTURE, PREDICTIONS];

/// Writes the judgement on the images of `source` into a folder: each class, the confusion matrix, also as a picture under a
/// title, and each image.
///
/// # Errors
/// Failures of drawing and of the file system.
pub fn save_judgement(
    judgement: &Judgement,
    source: &Source,
    title: &str,
    folder: &Path,
) -> Result<(), ReportError> {
    write_text(
        &folder.join(PREDICTIONS),
        &judgement.predictions_csv(source),
    )?;
    save_confusion(judgement, &source.classes, title, folder)
}

/// Writes the same without the single images.
pub(super) fn save_confusion(
    judgement: &Judgement,
    classes: &[String],
    title: &str,
    folder: &Path,
) -> Result<(), ReportError> {
    write_text(&folder.join(CLASSES), &judgement.classes_csv(classes))?;
    write_text(&folder.join(CONFUSION), &judgement.confusion_csv(classes))?;
    let cells: Vec<_> = judgement
        .cells()
        .map(|cell| ([cell.label, cell.predicted], cell.images))
        .collect();
    draw_confusion(&cells, classes, title, &folder.join(PICTURE))
}
