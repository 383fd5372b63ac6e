//! How a classifier errs: class by class, which classes it confuses, and whether its probabilities are calibrated.
//!
//! Everything is counted from the logits of single images, which come from the shared evaluation path
//! (`evaluate` in `task/evaluate.rs`).

mod accuracy;
mod calibration;
mod guess;
mod real;
mod tables;

use std::collections::BTreeMap;

use crate::data::Batch;

pub(crate) use self::accuracy::ranked;
pub use self::accuracy::{Correct, correct};
pub use self::calibration::{BINS, Calibration};
pub use self::real::{RealError, RealLabels};
pub use self::tables::{ClassRow, Confused};
pub use guess::{Guess, best, labels, likely};

/// A model's prediction for one image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// Its index in [`Source::samples`](crate::data::Source::samples).
    pub index: u32,
    /// Its class.
    pub label: u32,
    /// The class with the highest logit, the first one on a tie.
    pub predicted: u32,
    /// The probability of that class, in [0, 1].
    pub probability: f64,
}

/// A model's predictions for all images of a split, and their statistics.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// Number of classes.
    classes: usize,
    /// Image by image, in the order of the split.
    pub verdicts: Vec<Verdict>,
    /// Numbers of images by true class and predicted class, only for the pairs that occur: with thousands of classes few do.
    confusion: BTreeMap<(usize, usize), u64>,
    calibration: Calibration,
    real: Option<Real>,
}

/// Accuracy by reassessed labels.
#[derive(Clone, Debug, PartialEq)]
struct Real {
    labels: RealLabels,
    /// The number of each image in the list of labels, by the index of its sample.
    numbers: Vec<usize>,
    images: usize,
    top1: usize,
    top5: usize,
}

impl Judgement {
    /// The judgement of a model with `classes` classes, before any image.
    #[must_use]
    pub fn new(classes: usize) -> Self {
        Self {
            classes,
            verdicts: Vec::new(),
            confusion: BTreeMap::new(),
            calibration: Calibration::default(),
            real: None,
        }
    }

    /// Also judges by ImageNet's reassessed labels; `numbers` has the number of each image in that list.
    #[must_use]
    pub fn with_real(mut self, labels: RealLabels, numbers: Vec<usize>) -> Self {
        self.real = Some(Real {
            labels,
            numbers,
            images: 0,
            top1: 0,
            top5: 0,
        });
        self
    }

    /// Adds a batch and its logits, `[images, classes]` row by row. Classes that must not be chosen have a logit of negative infinity.
    pub fn hear(&mut self, batch: &Batch, logits: &[f32]) {
        let rows = logits.chunks_exact(self.classes.max(1));
        for ((row, &label), &index) in rows.zip(&batch.targets).zip(&batch.indices) {
            let ranked = ranked(row);
            let Some(&predicted) = ranked.first() else {
                continue;
            };
            let verdict = Verdict {
                index,
                label,
                predicted,
                probability: probability(row, predicted),
            };
            let pair = (label as usize, predicted as usize);
            *self.confusion.entry(pair).or_default() += 1;
            let is_right = label == predicted;
            self.calibration.hear(verdict.probability, is_right);
            if let Some(real) = &mut self.real {
                real.hear(index, &ranked);
            }
            self.verdicts.push(verdict);
        }
    }

    /// The calibration of the probabilities.
    #[must_use]
    pub fn calibration(&self) -> &Calibration {
        &self.calibration
    }

    /// The number of images with reassessed labels, and the percentages of them whose best class, or one of whose best five, is
    /// such a label; `None` without reassessed labels, or if no image has any.
    #[must_use]
    pub fn real(&self) -> Option<(usize, f64, f64)> {
        let real = self.real.as_ref().filter(|real| real.images > 0)?;
        let percent = |count: usize| 100.0 * count as f64 / real.images as f64;
        Some((real.images, percent(real.top1), percent(real.top5)))
    }
}

impl Real {
    fn hear(&mut self, index: u32, ranked: &[u32]) {
        let number = self.numbers.get(index as usize);
        let labels = number.map_or(&[][..], |number| self.labels.of(*number));
        // An image on which the labellers did not agree is not counted.
        if labels.is_empty() {
            return;
        }
        let is_among = |most: usize| ranked.iter().take(most).any(|class| labels.contains(class));
        self.images += 1;
        self.top1 += usize::from(is_among(1));
        self.top5 += usize::from(is_among(5));
    }
}

/// The softmax of a class, in f64.
fn probability(row: &[f32], class: u32) -> f64 {
    let own = row.get(class as usize).copied().unwrap_or(f32::NAN);
    let sum: f64 = row.iter().map(|&x| f64::from(x - own).exp()).sum();
    sum.recip()
}

#[cfg(test)]
mod tests;
