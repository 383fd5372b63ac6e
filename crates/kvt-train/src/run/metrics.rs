//! The metrics of evaluations.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The metrics of an evaluation by name. Each task has its own: a classifier has `loss`, `top1` and `top5`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Metrics(BTreeMap<String, Number>);

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Number(#[serde(with = "super::number")] f64);

/// A metric of evaluations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Its key in the log, in tables and in file names.
    pub name: &'static str,
    /// Its name for readers.
    pub title: &'static str,
    /// Whether it is in percent.
    pub percent: bool,
    /// Whether higher is better.
    pub higher: bool,
}

impl Metric {
    /// Mean cross-entropy.
    pub const LOSS: Self = Self {
        name: "loss",
        title: "loss",
        percent: false,
        higher: false,
    };
    /// Percentage of images whose most probable class is correct.
    pub const TOP1: Self = Self::percent("top1", "top-1");
    /// Percentage of images whose class is among the five most probable ones.
    pub const TOP5: Self = Self::percent("top5", "top-5");

    /// Mean over the classes with images of the percentage that is predicted correctly.
    pub const RECALL: Self = Self::percent("macro_recall", "macro recall");
    /// Mean over the classes with images of F1, the harmonic mean of recall and precision.
    pub const F1: Self = Self::percent("macro_f1", "macro F1");

    /// Percentage of images that the k-NN classifier on features gets right.
    pub const KNN: Self = Self::percent("knn", "k-NN top-1");
    /// Standard deviation over the images of features normalised to length 1, times the square root of their dimension: 0 if all
    /// are the same.
    pub const FEATURE_STD: Self = Self {
        name: "feature_std",
        title: "feature std",
        percent: false,
        higher: true,
    };

    /// Mean over the classes of the average precision of their labels, of images with several.
    pub const MAP: Self = Self::percent("map", "mAP");
    /// F1 of all labels of all images together.
    pub const MICRO_F1: Self = Self::percent("micro_f1", "micro F1");

    /// Mean over the classes of the intersection over union of predicted and labelled pixels.
    pub const MIOU: Self = Self::percent("miou", "mIoU");
    /// Mean over the classes of the percentage of their pixels that are predicted.
    pub const MACC: Self = Self::percent("macc", "mAcc");
    /// Percentage of all labelled pixels whose class is predicted.
    pub const AACC: Self = Self::percent("aacc", "aAcc");

    /// Average precision of boxes, as COCO defines it, in percent.
    pub const BOX_AP: Self = Self::percent("box_ap", "box AP");
    /// The same of masks.
    pub const MASK_AP: Self = Self::percent("mask_ap", "mask AP");

    /// Average precision of boxes at an overlap of 0.5.
    pub const BOX_AP50: Self = Self::percent("box_ap50", "box AP50");
    /// The same at an overlap of 0.75.
    pub const BOX_AP75: Self = Self::percent("box_ap75", "box AP75");
    /// Average precision of masks at an overlap of 0.5.
    pub const MASK_AP50: Self = Self::percent("mask_ap50", "mask AP50");
    /// The same at an overlap of 0.75.
    pub const MASK_AP75: Self = Self::percent("mask_ap75", "mask AP75");

    /// A metric in percent, of which more is better.
    const fn percent(name: &'static str, title: &'static str) -> Self {
        Self {
            name,
            title,
            percent: true,
            higher: true,
        }
    }

    /// Whether `new` is better than `old`. An equal value is not better, and neither is NaN.
    pub fn improves(self, new: f64, old: f64) -> bool {
        if self.higher { new > old } else { new < old }
    }
}

impl Metrics {
    /// The metric with this name.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.get(name).map(|number| number.0)
    }

    /// All metrics, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.0))
    }
}

impl<const N: usize> From<[(&str, f64); N]> for Metrics {
    fn from(metrics: [(&str, f64); N]) -> Self {
        let named = metrics.map(|(name, value)| (name.to_owned(), Number(value)));
        Self(named.into_iter().collect())
    }
}

impl FromIterator<(String, f64)> for Metrics {
    fn from_iter<I: IntoIterator<Item = (String, f64)>>(metrics: I) -> Self {
        let numbers = metrics.into_iter();
        Self(numbers.map(|(name, value)| (name, Number(value))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn better_is_higher_or_lower() {
        let (accuracy, loss) = (Metric::TOP1, Metric::LOSS);
        assert!(accuracy.improves(2.0, 1.0) && loss.improves(1.0, 2.0));
        for (new, old) in [(1.0, 1.0), (f64::NAN, 1.0)] {
            assert!(!accuracy.improves(new, old) && !loss.improves(new, old));
        }
        assert!(!accuracy.improves(1.0, 2.0) && !loss.improves(2.0, 1.0));
    }
}
