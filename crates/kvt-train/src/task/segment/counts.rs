//! How well pixels are classified: counts over all images, and the metrics that follow.

use kvt_data::IGNORED;

use crate::world::{World, WorldError};

/// How many pixels of each class were predicted as each class, without ignored ones.
///
/// The metrics are those of MMSegmentation's `IoUMetric`: of the counts over all images, not means over images. With the
/// intersection `I`, the predicted pixels `P` and the labelled pixels `L` of a class, `IoU = I / (P + L - I)` and `Acc = I / L`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentCounts {
    classes: usize,
    /// `[label, prediction]`
    cells: Vec<u64>,
}

impl SegmentCounts {
    /// No pixels yet.
    pub fn new(classes: usize) -> Self {
        Self {
            classes,
            cells: vec![0; classes * classes],
        }
    }

    /// Adds an image: the predicted and the labelled class of each pixel. Pixels whose label is [`IGNORED`] do not count; other
    /// labels are classes, which the reader of masks ensures.
    pub fn add(&mut self, prediction: &[u8], labels: &[u8]) {
        for (&prediction, &label) in prediction.iter().zip(labels) {
            let (prediction, label) = (usize::from(prediction), usize::from(label));
            if label == usize::from(IGNORED) || prediction >= self.classes {
                continue;
            }
            if let Some(cell) = self.cells.get_mut(label * self.classes + prediction) {
                *cell += 1;
            }
        }
    }

    /// The counts, `[label, prediction]` row by row.
    pub fn cells(&self) -> &[u64] {
        &self.cells
    }

    /// The number of classes.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// These counts summed over processes, exact up to 2^53.
    pub(super) fn summed(mut self, world: &dyn World) -> Result<Self, WorldError> {
        let mut cells: Vec<f64> = self.cells.iter().map(|&count| count as f64).collect();
        world.sum(&mut cells)?;
        self.cells = cells.into_iter().map(|count| count as u64).collect();
        Ok(self)
    }

    /// Pixels of a class that are predicted as this class.
    pub fn intersection(&self, class: usize) -> u64 {
        self.cell(class, class)
    }

    /// Pixels that are predicted as a class.
    pub fn predicted(&self, class: usize) -> u64 {
        (0..self.classes).map(|label| self.cell(label, class)).sum()
    }

    /// Pixels of a class.
    pub fn labelled(&self, class: usize) -> u64 {
        (0..self.classes)
            .map(|prediction| self.cell(class, prediction))
            .sum()
    }

    /// Intersection over union of a class in percent; `None` if it is neither labelled nor predicted.
    pub fn iou(&self, class: usize) -> Option<f64> {
        let both = self.intersection(class);
        percent(both, self.predicted(class) + self.labelled(class) - both)
    }

    /// Percentage of a class's pixels that are predicted as such; `None` if it has none.
    pub fn accuracy(&self, class: usize) -> Option<f64> {
        percent(self.intersection(class), self.labelled(class))
    }

    /// The mean of [`iou`](Self::iou) over the classes that have one; NaN if none has.
    pub fn miou(&self) -> f64 {
        mean((0..self.classes).filter_map(|class| self.iou(class)))
    }

    /// The mean of [`accuracy`](Self::accuracy) over the classes that have one; NaN if none has.
    pub fn macc(&self) -> f64 {
        mean((0..self.classes).filter_map(|class| self.accuracy(class)))
    }

    /// Percentage of all labelled pixels that are predicted as their class; NaN without any.
    pub fn aacc(&self) -> f64 {
        let right = (0..self.classes).map(|class| self.intersection(class));
        percent(right.sum(), self.pixels()).unwrap_or(f64::NAN)
    }

    /// All labelled pixels.
    pub fn pixels(&self) -> u64 {
        self.cells.iter().sum()
    }

    fn cell(&self, label: usize, prediction: usize) -> u64 {
        let cell = self.cells.get(label * self.classes + prediction);
        cell.copied().unwrap_or(0)
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
