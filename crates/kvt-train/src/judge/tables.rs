//! What a judgement comes to: by class, by pair of classes, and as CSV.

use super::Judgement;
use crate::data::Source;
use crate::report::csv_field;

/// How a class fared. Shares are in [0, 1], `None` where they are of nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClassRow {
    /// Its images.
    pub images: u64,
    /// Images that were taken for it.
    pub predicted: u64,
    /// Its images that were.
    pub right: u64,
}

/// Two classes of which one was taken for the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confused {
    /// The true class.
    pub label: usize,
    /// What it was taken for.
    pub predicted: usize,
    /// Images.
    pub images: u64,
}

impl ClassRow {
    /// Share of its images that were recognised: the accuracy of the class.
    #[must_use]
    pub fn recall(self) -> Option<f64> {
        share(self.right, self.images)
    }

    /// Share of the images taken for it that are its own.
    #[must_use]
    pub fn precision(self) -> Option<f64> {
        share(self.right, self.predicted)
    }

    /// The harmonic mean of recall and precision.
    #[must_use]
    pub fn f1(self) -> Option<f64> {
        share(2 * self.right, self.images + self.predicted)
    }
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

impl Judgement {
    /// Each class, in label order.
    #[must_use]
    pub fn by_class(&self) -> Vec<ClassRow> {
        let classes = 0..self.classes;
        let row = |class: usize| {
            let predicted = (0..self.classes).map(|label| self.count(label, class));
            ClassRow {
                images: self.row(class).iter().sum(),
                predicted: predicted.sum(),
                right: self.count(class, class),
            }
        };
        classes.map(row).collect()
    }

    /// The mean of the classes' recalls, of those with images: what accuracy would be if all had as many. In [0, 1].
    #[must_use]
    pub fn balanced_accuracy(&self) -> f64 {
        let recalls: Vec<f64> = self
            .by_class()
            .into_iter()
            .filter_map(ClassRow::recall)
            .collect();
        recalls.iter().sum::<f64>() / recalls.len().max(1) as f64
    }

    /// The pairs of classes that are confused most, at most so many; of equal ones in label order.
    #[must_use]
    pub fn confused(&self, most: usize) -> Vec<Confused> {
        let pairs = (0..self.classes).flat_map(|label| {
            let row = self.row(label).iter().enumerate();
            row.map(move |(predicted, &images)| Confused {
                label,
                predicted,
                images,
            })
        });
        let mut pairs: Vec<Confused> = pairs
            .filter(|pair| pair.label != pair.predicted && pair.images > 0)
            .collect();
        // Stable: equal ones stay in label order.
        pairs.sort_by_key(|pair| std::cmp::Reverse(pair.images));
        pairs.truncate(most);
        pairs
    }

    /// The confusion matrix: a row for each true class, a column for each that was predicted.
    #[must_use]
    pub fn confusion_csv(&self, names: &[String]) -> String {
        let names: Vec<String> = names.iter().map(|name| csv_field(name)).collect();
        let mut text = format!("class,{}\n", names.join(","));
        for (label, name) in names.iter().enumerate() {
            let counts: Vec<String> = self.row(label).iter().map(u64::to_string).collect();
            text += &format!("{name},{}\n", counts.join(","));
        }
        text
    }

    /// The classes with their shares.
    #[must_use]
    pub fn classes_csv(&self, names: &[String]) -> String {
        let number = |share: Option<f64>| share.map_or_else(String::new, |x| x.to_string());
        let rows = self.by_class().into_iter().zip(names);
        let rows = rows.map(|(row, name)| {
            format!(
                "{},{},{},{},{},{}\n",
                csv_field(name),
                row.images,
                row.right,
                number(row.recall()),
                number(row.precision()),
                number(row.f1())
            )
        });
        let header = "class,images,right,accuracy,precision,f1\n".to_owned();
        rows.fold(header, |text, row| text + &row)
    }

    /// The images with what they were taken for.
    #[must_use]
    pub fn predictions_csv(&self, source: &Source) -> String {
        let name = |class: u32| {
            let name = source.classes.get(class as usize);
            name.map_or_else(|| class.to_string(), |name| csv_field(name))
        };
        let rows = self.verdicts.iter().map(|verdict| {
            let sample = source.samples.get(verdict.index as usize);
            let path = sample.map_or_else(String::new, |sample| sample.path.display().to_string());
            format!(
                "{},{},{},{},{}\n",
                csv_field(&path),
                name(verdict.label),
                name(verdict.predicted),
                verdict.probability,
                verdict.label == verdict.predicted
            )
        });
        let header = "image,class,predicted,probability,right\n".to_owned();
        rows.fold(header, |text, row| text + &row)
    }

    /// The share of each class's images (rows) that were taken for each (columns), row by row: what the picture shows, in
    /// which a class with many images is no darker than others.
    #[must_use]
    pub fn shares(&self) -> Vec<f64> {
        let rows = (0..self.classes).map(|label| self.row(label));
        let shares = rows.flat_map(|row| {
            let images: u64 = row.iter().sum();
            row.iter()
                .map(move |&count| share(count, images).unwrap_or(0.0))
        });
        shares.collect()
    }

    fn row(&self, label: usize) -> &[u64] {
        let start = label * self.classes;
        self.confusion
            .get(start..start + self.classes)
            .unwrap_or_default()
    }

    /// Images of a class (`label`) that were taken for another one, or recognised.
    #[must_use]
    pub fn count(&self, label: usize, predicted: usize) -> u64 {
        self.row(label).get(predicted).copied().unwrap_or(0)
    }
}
