//! The classes of image files.

use std::path::PathBuf;

use kvt_ops::Key;

use super::{Trained, TrainedError};
use crate::augment::Transform;
use crate::data::{DataError, View, decode};
use crate::error::{TrainError, chain};
use crate::judge::{Guess, best};
use crate::splits::image_limits;
use crate::task::{TaskKind, predict};

/// An image and its most probable classes, best first, or the error.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The file.
    pub image: PathBuf,
    /// Its classes, or the error with its causes.
    pub found: Result<Vec<Guess>, String>,
}

impl Trained {
    /// The most probable classes of one image, best first, with names of `classes`; none from a backbone without a trained head.
    ///
    /// # Errors
    /// If the device fails.
    pub fn guesses(
        &self,
        image: View,
        classes: Option<&[String]>,
        top: usize,
    ) -> Result<Vec<Guess>, TrainError> {
        let has_head =
            self.plan.task == TaskKind::Classify && self.model.config().num_classes() > 1;
        if !has_head {
            return Ok(Vec::new());
        }
        let (logits, _) = predict(&self.model, image, &self.device.device)?;
        Ok(best(&logits, classes, top))
    }

    /// The model's predictions for some files, in their order: the `top` most probable classes of each.
    ///
    /// # Errors
    /// If the device fails. An image that cannot be read has an error of its own.
    pub fn predict(
        &self,
        transform: &Transform,
        files: &[PathBuf],
        top: usize,
    ) -> Result<Vec<Prediction>, TrainError> {
        let prepare = |path: &PathBuf| -> Result<Vec<f32>, TrainError> {
            let image = decode(path, image_limits(&self.plan)).map_err(DataError::from)?;
            let view = View::of(image, transform, Key::new(0)).map_err(|source| {
                let path = path.clone();
                TrainedError::Prepare { path, source }
            })?;
            Ok(view.pixels)
        };
        let prepared: Vec<_> = files.iter().map(prepare).collect();
        let readable: Vec<&[f32]> = prepared.iter().flatten().map(Vec::as_slice).collect();
        let (logits, classes) = if readable.is_empty() {
            (Vec::new(), 1)
        } else {
            let images = View::whole(readable.concat(), self.size);
            predict(&self.model, images, &self.device.device)?
        };
        let mut rows = logits.chunks_exact(classes.max(1));
        let predictions = files.iter().zip(prepared).map(|(path, image)| {
            let found = image.and_then(|_| {
                let row = rows.next().unwrap_or_default();
                if row.is_empty() || !row.iter().all(|x| x.is_finite()) {
                    return Err(TrainedError::LogitsOf(path.clone()).into());
                }
                Ok(best(row, self.classes.as_deref(), top))
            });
            Prediction {
                image: path.clone(),
                found: found.map_err(|error| chain(&error)),
            }
        });
        Ok(predictions.collect())
    }
}
