//! How well labels are found: average precision, precision, recall and F1, as scikit-learn computes them.

use crate::judge::ClassRow;

/// How well the label of one class is found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LabelScore {
    /// Above this probability, an image has the label.
    pub threshold: f64,
    /// The images with the label, those that were predicted to have it, and those of which both is true.
    pub counts: ClassRow,
    /// Average precision, from 0 to 1: scikit-learn's `average_precision_score`. `None` if no image has the label.
    pub ap: Option<f64>,
}

/// How well each label is found, in label order.
#[derive(Clone, Debug, PartialEq)]
pub struct LabelScores(pub Vec<LabelScore>);

/// Whether a logit is of a probability above a threshold.
pub(crate) fn is_above(logit: f32, threshold: f64) -> bool {
    probability(logit) > threshold
}

/// The probability of a label: the sigmoid of its logit.
pub fn probability(logit: f32) -> f64 {
    1.0 / (1.0 + (-f64::from(logit)).exp())
}

impl LabelScores {
    /// Of logits, `[images, classes]` row by row, the labels of each image, and the threshold of each class.
    pub(super) fn of(logits: &[f32], labels: &[&[u32]], thresholds: &[f64]) -> Self {
        let classes = thresholds.len();
        let score = |(class, &threshold): (usize, &f64)| {
            let column = logits.iter().skip(class).step_by(classes);
            let has = |labels: &&[u32]| labels.contains(&(class as u32));
            let pairs: Vec<(f32, bool)> = column.copied().zip(labels.iter().map(has)).collect();
            let mut counts = ClassRow::default();
            for &(logit, has) in &pairs {
                let found = is_above(logit, threshold);
                counts.images += u64::from(has);
                counts.predicted += u64::from(found);
                counts.right += u64::from(has && found);
            }
            LabelScore {
                threshold,
                counts,
                ap: average_precision(pairs),
            }
        };
        Self(thresholds.iter().enumerate().map(score).collect())
    }

    /// The mean average precision in percent, over the classes that images have; NaN if there is none.
    #[must_use]
    pub fn map(&self) -> f64 {
        let all: Vec<f64> = self.0.iter().filter_map(|score| score.ap).collect();
        100.0 * all.iter().sum::<f64>() / all.len() as f64
    }

    /// F1 of all labels of all images together, in percent; NaN if there is none, neither right nor predicted.
    #[must_use]
    pub fn micro_f1(&self) -> f64 {
        let mut all = ClassRow::default();
        for score in &self.0 {
            all.images += score.counts.images;
            all.predicted += score.counts.predicted;
            all.right += score.counts.right;
        }
        all.f1().map_or(f64::NAN, |f1| 100.0 * f1)
    }

    /// The mean F1 in percent, over the classes that images have.
    #[must_use]
    pub fn macro_f1(&self) -> f64 {
        let rows: Vec<ClassRow> = self.0.iter().map(|score| score.counts).collect();
        100.0 * ClassRow::mean(&rows, ClassRow::f1)
    }

    /// The classes that no image has, of these names in label order: they are left out of the means.
    #[must_use]
    pub fn without_images(&self, names: &[String]) -> Vec<String> {
        let named = self.0.iter().zip(names);
        let absent = named.filter(|(score, _)| score.ap.is_none());
        absent.map(|(_, name)| name.clone()).collect()
    }
}

/// `sum_n (R_n - R_(n-1)) P_n` with the recall `R_n` and the precision `P_n` of the n-th highest score, of pairs of a score and whether it
/// is of a positive. Equal scores are one.
fn average_precision(mut pairs: Vec<(f32, bool)>) -> Option<f64> {
    pairs.sort_unstable_by(|(one, _), (other, _)| other.total_cmp(one));
    let (mut seen, mut right, mut sum) = (0, 0, 0.0);
    for equal in pairs.chunk_by(|(one, _), (other, _)| one == other) {
        let new = equal.iter().filter(|(_, is_positive)| *is_positive).count();
        seen += equal.len();
        right += new;
        sum += new as f64 * right as f64 / seen as f64;
    }
    (right > 0).then(|| sum / right as f64)
}
