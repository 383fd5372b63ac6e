//! The classes of image files.

use std::path::PathBuf;

use super::{Trained, TrainedError};
use kvt_data::View;
use kvt_data::augment::Transform;
use kvt_train::error::chain;
use kvt_train::judge::{Guess, best, labels, likely};
use kvt_train::splits::image_limits;
use kvt_train::task::{TaskKind, predict};

/// How many classes of an image are told where nothing else is asked for.
const TOP: usize = 5;

/// An image and its most probable classes, or all of its labels, best first, or the error.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The file.
    pub image: PathBuf,
    /// Its classes, or the error with its causes.
    pub found: Result<Vec<Guess>, String>,
}

impl Trained {
    /// The most probable classes of one image, best first, with names of `classes`; none from a backbone without a trained head. Of
    /// several labels, each has a probability of its own.
    ///
    /// # Errors
    /// If the device fails.
    pub fn guesses(
        &self,
        image: View,
        classes: Option<&[String]>,
        top: usize,
    ) -> Result<Vec<Guess>, TrainedError> {
        let is_multi = self.plan.task == TaskKind::MultiLabel;
        let has_head = (is_multi || self.plan.task == TaskKind::Classify)
            && self.model.config().num_classes() > 1;
        if !has_head {
            return Ok(Vec::new());
        }
        let (logits, _) = predict(&self.model, image, &self.device.device)?;
        Ok(if is_multi {
            likely(&logits, classes, top)
        } else {
            best(&logits, classes, top)
        })
    }

    /// The model's predictions for some files, in their order: the `top` most probable classes of each, by default five. A model of
    /// several labels gives all that are above their threshold, which may be none, unless `top` is given.
    ///
    /// # Errors
    /// If the device fails, or a threshold is of no class. An image that cannot be read has an error of its own.
    pub fn predict(
        &self,
        transform: &Transform,
        files: &[PathBuf],
        top: Option<usize>,
    ) -> Result<Vec<Prediction>, TrainedError> {
        let is_multi = self.plan.task == TaskKind::MultiLabel;
        let numbers = 0..self.model.config().num_classes();
        let numbered = || numbers.map(|class| class.to_string()).collect();
        let names = self.classes.clone().unwrap_or_else(numbered);
        let thresholds = self.plan.multi_label.of(&names)?;
        let prepare = |path: &PathBuf| -> Result<Vec<f32>, TrainedError> {
            Ok(View::of_file(path, image_limits(&self.plan), transform)?.pixels)
        };
        let prepared: Vec<_> = files.iter().map(prepare).collect();
        let readable: Vec<&[f32]> = prepared.iter().flatten().map(Vec::as_slice).collect();
        let (logits, classes) = if readable.is_empty() {
            (Vec::new(), 1)
        } else {
            let images = View::whole(readable.concat(), transform.channels(), self.size);
            predict(&self.model, images, &self.device.device)?
        };
        let mut rows = logits.chunks_exact(classes.max(1));
        let predictions = files.iter().zip(prepared).map(|(path, image)| {
            let found = image.and_then(|_| {
                let row = rows.next().unwrap_or_default();
                if row.is_empty() || !row.iter().all(|x| x.is_finite()) {
                    return Err(TrainedError::LogitsOf(path.clone()));
                }
                let names = self.classes.as_deref();
                Ok(match top {
                    None if is_multi => labels(row, names, &thresholds),
                    Some(top) if is_multi => likely(row, names, top),
                    top => best(row, names, top.unwrap_or(TOP)),
                })
            });
            Prediction {
                image: path.clone(),
                found: found.map_err(|error| chain(&error)),
            }
        });
        Ok(predictions.collect())
    }
}
