//! The results of a judgement: by class, by pair of classes, and as CSV.

use std::iter;

use super::Judgement;
use crate::data::Source;
use crate::table::{Table, cells, or_empty};

/// The results of a class. Shares are in [0, 1], and `None` if their denominator is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassRow {
    /// Its images.
    pub images: u64,
    /// Images that were predicted as this class.
    pub predicted: u64,
    /// Its images that were predicted correctly.
    pub right: u64,
}

/// Up to this many classes the whole confusion matrix is written; a larger one is nearly all zeros.
const SQUARE: usize = 2000;

/// A class and the class that its images were predicted as, which may be the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confused {
    /// The true class.
    pub label: usize,
    /// The predicted class.
    pub predicted: usize,
    /// The number of images.
    pub images: u64,
}

impl ClassRow {
    /// Share of its images that were predicted correctly: the accuracy of the class.
    #[must_use]
    pub fn recall(self) -> Option<f64> {
        share(self.right, self.images)
    }

    /// Share of the images predicted as this class that belong to it.
    #[must_use]
    pub fn precision(self) -> Option<f64> {
        share(self.right, self.predicted)
    }

    /// The harmonic mean of recall and precision.
    #[must_use]
    pub fn f1(self) -> Option<f64> {
        share(2 * self.right, self.images + self.predicted)
    }

    /// Counts an image of a class that is predicted as another, or as none.
    pub fn count(rows: &mut [Self], label: u32, predicted: Option<u32>) {
        if let Some(row) = rows.get_mut(label as usize) {
            row.images += 1;
            row.right += u64::from(predicted == Some(label));
        }
        if let Some(row) = predicted.and_then(|class| rows.get_mut(class as usize)) {
            row.predicted += 1;
        }
    }

    /// All counts, in one order.
    pub(crate) fn counts(&mut self) -> [&mut u64; 3] {
        [&mut self.images, &mut self.predicted, &mut self.right]
    }

    /// The mean of a share over the classes with images, in [0, 1]: the share if all of them counted the same.
    pub fn mean(rows: &[Self], share: impl Fn(Self) -> Option<f64>) -> f64 {
        let with_images = rows.iter().filter(|row| row.images > 0);
        let shares: Vec<f64> = with_images.filter_map(|row| share(*row)).collect();
        shares.iter().sum::<f64>() / shares.len().max(1) as f64
    }
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

impl Judgement {
    /// Each class, in label order.
    #[must_use]
    pub fn by_class(&self) -> Vec<ClassRow> {
        let mut rows = vec![ClassRow::default(); self.classes];
        for verdict in &self.verdicts {
            ClassRow::count(&mut rows, verdict.label, Some(verdict.predicted));
        }
        rows
    }

    /// The mean recall of the classes with images: the accuracy if all of them had equally many. In [0, 1].
    #[must_use]
    pub fn balanced_accuracy(&self) -> f64 {
        ClassRow::mean(&self.by_class(), ClassRow::recall)
    }

    /// The most confused pairs of classes, at most `most` of them; ties are in label order.
    #[must_use]
    pub fn confused(&self, most: usize) -> Vec<Confused> {
        let mut pairs: Vec<Confused> = self
            .cells()
            .filter(|pair| pair.label != pair.predicted)
            .collect();
        // The sort is stable: ties stay in label order.
        pairs.sort_by_key(|pair| std::cmp::Reverse(pair.images));
        pairs.truncate(most);
        pairs
    }

    /// The pairs of classes that occur, in label order: the confusion matrix without its zeros.
    pub fn cells(&self) -> impl Iterator<Item = Confused> + '_ {
        let cells = self.confusion.iter();
        cells.map(|(&(label, predicted), &images)| Confused {
            label,
            predicted,
            images,
        })
    }

    /// The confusion matrix: a row for each true class, a column for each predicted class. With more than 2000 classes, a row for
    /// each pair that occurs.
    #[must_use]
    pub fn confusion_csv(&self, names: &[String]) -> String {
        if names.len() > SQUARE {
            let name = |class: usize| names.get(class).map_or("", String::as_str);
            let rows = self
                .cells()
                .map(|cell| cells([&name(cell.label), &name(cell.predicted), &cell.images]));
            return Table::new(["class", "predicted", "images"], rows).csv();
        }
        let rows = names.iter().enumerate().map(|(label, name)| {
            let counts = (0..names.len()).map(|predicted| self.count(label, predicted).to_string());
            iter::once(name.clone()).chain(counts).collect::<Vec<_>>()
        });
        let names = names.iter().map(String::as_str);
        Table::new(iter::once("class").chain(names), rows).csv()
    }

    /// The classes with their shares.
    #[must_use]
    pub fn classes_csv(&self, names: &[String]) -> String {
        let rows = self.by_class().into_iter().zip(names).map(|(row, name)| {
            cells([
                name,
                &row.images,
                &row.right,
                &or_empty(row.recall()),
                &or_empty(row.precision()),
                &or_empty(row.f1()),
            ])
        });
        let header = ["class", "images", "right", "accuracy", "precision", "f1"];
        Table::new(header, rows).csv()
    }

    /// The images with their predictions.
    #[must_use]
    pub fn predictions_csv(&self, source: &Source) -> String {
        let name = |class: u32| {
            let name = source.classes.get(class as usize);
            name.cloned().unwrap_or_else(|| class.to_string())
        };
        let rows = self.verdicts.iter().map(|verdict| {
            let sample = source.samples.get(verdict.index as usize);
            cells([
                &or_empty(sample.map(|sample| sample.path.display())),
                &name(verdict.label),
                &name(verdict.predicted),
                &verdict.probability,
                &(verdict.label == verdict.predicted),
            ])
        });
        let header = ["image", "class", "predicted", "probability", "right"];
        Table::new(header, rows).csv()
    }

    /// The number of images of class `label` that were predicted as class `predicted`.
    #[must_use]
    pub fn count(&self, label: usize, predicted: usize) -> u64 {
        let images = self.confusion.get(&(label, predicted));
        images.copied().unwrap_or(0)
    }
}
