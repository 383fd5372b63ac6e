//! How well pixels are classified: counts over all images, and the metrics that follow.

use kvt_data::IGNORED;

use crate::judge::ClassRow;
use crate::world::{World, WorldError};

/// How many pixels of each class there are, were predicted as it, and are both, without ignored ones.
///
/// The metrics are those of MMSegmentation's `IoUMetric`: of the counts over all images, not means over images. With the
/// intersection `I`, the predicted pixels `P` and the labelled pixels `L` of a class, `IoU = I / (P + L - I)` and `Acc = I / L`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentCounts {
    /// The classes in label order, with pixels in place of images.
    pub rows: Vec<ClassRow>,
}

impl SegmentCounts {
    /// No pixels yet.
    pub fn new(classes: usize) -> Self {
        Self {
            rows: vec![ClassRow::default(); classes],
        }
    }

    /// Adds an image: the predicted and the labelled class of each pixel. Pixels whose label is [`IGNORED`] do not count; other
    /// labels are classes, which the reader of masks ensures.
    pub fn add(&mut self, prediction: &[u8], labels: &[u8]) {
        for (&prediction, &label) in prediction.iter().zip(labels) {
            if label != IGNORED && usize::from(prediction) < self.rows.len() {
                ClassRow::count(&mut self.rows, label.into(), Some(prediction.into()));
            }
        }
    }

    /// These counts summed over processes, exact up to 2^53.
    pub(super) fn summed(mut self, world: &dyn World) -> Result<Self, WorldError> {
        let counts: Vec<&mut u64> = self.rows.iter_mut().flat_map(ClassRow::counts).collect();
        let mut sums: Vec<f64> = counts.iter().map(|count| **count as f64).collect();
        world.sum(&mut sums)?;
        let counts = counts.into_iter().zip(sums);
        counts.for_each(|(count, sum)| *count = sum as u64);
        Ok(self)
    }

    /// The mean of [`iou_percent`](ClassRow::iou_percent) over the classes that have one; NaN if none has.
    pub fn miou(&self) -> f64 {
        mean(self.rows.iter().filter_map(|row| row.iou_percent()))
    }

    /// The mean of [`accuracy_percent`](ClassRow::accuracy_percent) over the classes that have one; NaN if none has.
    pub fn macc(&self) -> f64 {
        mean(self.rows.iter().filter_map(|row| row.accuracy_percent()))
    }

    /// Percentage of all labelled pixels that are predicted as their class; NaN without any.
    pub fn aacc(&self) -> f64 {
        let right = self.rows.iter().map(|row| row.right).sum();
        percent(right, self.pixels()).unwrap_or(f64::NAN)
    }

    /// All labelled pixels.
    pub fn pixels(&self) -> u64 {
        self.rows.iter().map(|row| row.images).sum()
    }
}

impl ClassRow {
    /// Intersection over union of a class in percent; `None` if it is neither there nor predicted.
    #[must_use]
    pub fn iou_percent(self) -> Option<f64> {
        percent(self.right, self.predicted + self.images - self.right)
    }

    /// Percentage of a class that is predicted as such; `None` if it is not there. Rounded as MMSegmentation does, unlike
    /// [`recall`](Self::recall).
    #[must_use]
    pub fn accuracy_percent(self) -> Option<f64> {
        percent(self.right, self.images)
    }
}

fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| 100.0 * part as f64 / whole as f64)
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    sum / f64::from(count)
}

#[cfg(test)]
mod tests;
