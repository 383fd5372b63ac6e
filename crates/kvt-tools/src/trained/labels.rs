//! A trained model that gives any number of labels to an image: how good they are, as text, as a table, and for programs.

use serde_json::{Value, json};

use super::judge::{check_loss, judged};
use super::{Images, Trained, TrainedError, Warn};
use kvt_data::text::quoted;
use kvt_train::judge::ClassRow;
use kvt_train::splits::some_batches;
use kvt_train::table::{Table, cells, or_empty, percent};
use kvt_train::task::{LabelEvaluation, LabelScore, evaluate_labels};
use kvt_train::world::Alone;

impl Trained {
    /// Evaluates the labels of images, and warns of images that were skipped. `progress` gets the number of images done and of all.
    ///
    /// # Errors
    /// If no image can be read or has a label, a threshold is of no class, the device fails, or the logits are not finite.
    pub fn judge_labels(
        &self,
        images: &Images,
        progress: &mut dyn FnMut(usize, usize),
        warn: Warn<'_>,
    ) -> Result<LabelEvaluation, TrainedError> {
        let (source, device) = (&images.source, &self.device.device);
        let thresholds = self.plan.multi_label.of(&source.classes)?;
        let batches = some_batches(&self.plan, source, &self.transform()?, 0)?;
        let of = (&**source, &*thresholds);
        let evaluation = judged(images, batches, progress, warn, |batches, done| {
            evaluate_labels(&self.model, Ok(batches), of, device, &Alone, done)
        })?;
        check_loss(evaluation.images, evaluation.loss)?;
        Ok(evaluation)
    }
}

/// How good the labels of images are.
#[derive(Clone, Copy, Debug)]
pub struct LabelResults<'a> {
    /// Over all images.
    pub evaluation: &'a LabelEvaluation,
    /// What the images are, to be put after their number.
    pub images: &'a str,
    /// The classes in label order.
    pub classes: &'a [String],
}

impl LabelResults<'_> {
    /// The results as lines of text; classes that no image has are named.
    #[must_use]
    pub fn text(&self) -> String {
        let LabelEvaluation {
            images,
            unlabelled,
            loss,
            scores,
        } = self.evaluation;
        let mut text = format!(
            "mAP {:.2} %  micro F1 {:.2} %  macro F1 {:.2} %  loss {loss:.4}  ({images} {}",
            scores.map(),
            scores.micro_f1(),
            scores.macro_f1(),
            self.images,
        );
        text += &match unlabelled {
            0 => ")".to_owned(),
            _ => format!(", {unlabelled} of them without a label)"),
        };
        let absent = scores.without_images(self.classes);
        if !absent.is_empty() {
            text += &format!(
                "\nno image has {} of {} classes, which mAP and macro F1 leave out: {}",
                absent.len(),
                self.classes.len(),
                quoted(&absent)
            );
        }
        text
    }

    /// Every class: its name, images, AP, precision, recall, F1 and threshold.
    #[must_use]
    pub fn classes(&self) -> Vec<Vec<String>> {
        let rows = self.named().map(|(name, score)| {
            vec![
                name.clone(),
                score.counts.images.to_string(),
                percent(score.ap),
                percent(score.counts.precision()),
                percent(score.counts.recall()),
                percent(score.counts.f1()),
                score.threshold.to_string(),
            ]
        });
        rows.collect()
    }

    /// The heading of [`classes`](Self::classes).
    pub const HEADER: [&'static str; 7] = [
        "class",
        "images",
        "AP",
        "precision",
        "recall",
        "F1",
        "threshold",
    ];

    /// The first line of [`csv`](Self::csv).
    pub const COLUMNS: &'static str =
        "class,name,images,predicted,right,ap,precision,recall,f1,threshold";

    /// Every class as CSV, with shares from 0 to 1. An empty cell is 0 / 0.
    #[must_use]
    pub fn csv(&self) -> String {
        let rows = self.named().enumerate().map(|(class, (name, score))| {
            let ClassRow {
                images,
                predicted,
                right,
            } = score.counts;
            cells([
                &class,
                name,
                &images,
                &predicted,
                &right,
                &or_empty(score.ap),
                &or_empty(score.counts.precision()),
                &or_empty(score.counts.recall()),
                &or_empty(score.counts.f1()),
                &score.threshold,
            ])
        });
        Table::new(Self::COLUMNS.split(','), rows).csv()
    }

    /// The results for programs, with shares in percent; `per_class` adds each class.
    #[must_use]
    pub fn json(&self, per_class: bool) -> Value {
        let LabelEvaluation {
            images,
            unlabelled,
            loss,
            scores,
        } = self.evaluation;
        let mut record = json!({
            "images": images,
            "unlabelled": unlabelled,
            "loss": loss,
            "unit": "percent",
            "map": scores.map(),
            "micro_f1": scores.micro_f1(),
            "macro_f1": scores.macro_f1(),
            "absent": scores.without_images(self.classes),
        });
        if per_class {
            let percent = |share: Option<f64>| share.map(|share| 100.0 * share);
            let classes = self.named().map(|(name, score)| {
                json!({
                    "class": name,
                    "images": score.counts.images,
                    "predicted": score.counts.predicted,
                    "right": score.counts.right,
                    "ap": percent(score.ap),
                    "precision": percent(score.counts.precision()),
                    "recall": percent(score.counts.recall()),
                    "f1": percent(score.counts.f1()),
                    "threshold": score.threshold,
                })
            });
            record["classes"] = classes.collect();
        }
        record
    }

    /// Each class and its score.
    fn named(&self) -> impl Iterator<Item = (&String, &LabelScore)> {
        self.classes.iter().zip(&self.evaluation.scores.0)
    }
}

#[cfg(test)]
mod tests;
