//! The results of an evaluation, as text and for programs.

use serde_json::{Value, json};

use super::Images;
use crate::paint::name_of;
use crate::report::{interval_of, wilson};
use kvt_train::judge::Judgement;
use kvt_train::table::percent;
use kvt_train::task::Evaluation;

/// Maximum number of class pairs shown.
const PAIRS: usize = 10;

/// A model's results on images.
#[derive(Clone, Copy, Debug)]
pub struct Results<'a> {
    /// Over all images.
    pub evaluation: &'a Evaluation,
    /// Image by image.
    pub judged: &'a Judgement,
    /// The images.
    pub images: &'a Images,
}

impl Results<'_> {
    /// The results as lines of text.
    #[must_use]
    pub fn text(&self) -> String {
        let Self {
            evaluation,
            judged,
            images,
        } = self;
        let chosen = images.choices();
        // With at most five classes, top-5 is always 100 %.
        let top5 = if chosen > 5 {
            format!("  top-5 {:.2} %", evaluation.top5_percent())
        } else {
            String::new()
        };
        let calibration = judged.calibration();
        let mut text = format!(
            "top-1 {:.2} %{}{top5}  loss {:.4}  ({} {})\n\
             macro recall {:.2} %  macro F1 {:.2} %\n\
             calibration error (ECE) {:.2} %, with a mean confidence of {:.2} %",
            evaluation.top1_percent(),
            interval_of(evaluation.top1_percent(), evaluation.images),
            evaluation.loss,
            evaluation.images,
            images.words,
            evaluation.recall_percent,
            evaluation.f1_percent,
            100.0 * calibration.error(),
            100.0 * calibration.confidence(),
        );
        let classes = images.source.classes.len();
        if chosen < classes {
            text += &format!("\nchosen among {chosen} of {classes} classes");
        }
        if let Some((images, top1, top5)) = judged.real() {
            text += &format!(
                "\nreassessed labels (ReaL): top-1 {top1:.2} %{}  top-5 {top5:.2} %  ({images} images)",
                interval_of(top1, images)
            );
        }
        text
    }

    /// The classes with images: name, images, accuracy, precision and F1.
    #[must_use]
    pub fn classes(&self) -> Vec<Vec<String>> {
        class_rows(self.judged, &self.images.source.classes)
    }

    /// The mean accuracy of the classes, in words.
    #[must_use]
    pub fn mean_accuracy(&self) -> String {
        let mean = 100.0 * self.judged.balanced_accuracy();
        format!("mean accuracy of the classes {mean:.2} %")
    }

    /// The most confused pairs of classes: the true one, the predicted one, images.
    #[must_use]
    pub fn confused(&self) -> Vec<Vec<String>> {
        confused_rows(self.judged, &self.images.source.classes)
    }

    /// The results for programs, with shares in percent; `per_class` adds each class and the most confused pairs.
    #[must_use]
    pub fn json(&self, per_class: bool) -> Value {
        let Self {
            evaluation,
            judged,
            images,
        } = self;
        let calibration = judged.calibration();
        let mut record = json!({
            // JSON cannot hold a path that is not UTF-8.
            "data": images.source.root.display().to_string(),
            "images": evaluation.images,
            "loss": evaluation.loss,
            "unit": "percent",
            "top1": evaluation.top1_percent(),
            "top1_interval": wilson(evaluation.top1, evaluation.images).map(|end| 100.0 * end),
            "top5": evaluation.top5_percent(),
            "ece": 100.0 * calibration.error(),
            "confidence": 100.0 * calibration.confidence(),
            "balanced_accuracy": 100.0 * judged.balanced_accuracy(),
            "macro_f1": evaluation.f1_percent,
        });
        if let Some((images, top1, top5)) = judged.real() {
            record["real"] = json!({ "images": images, "top1": top1, "top5": top5 });
        }
        if per_class {
            record["classes"] = self.classes_json();
            record["confused"] = self.confused_json();
        }
        record
    }

    fn classes_json(&self) -> Value {
        let percent = |share: Option<f64>| share.map(|share| 100.0 * share);
        let all = self.judged.by_class().into_iter();
        let rows = all.zip(&self.images.source.classes).map(|(row, name)| {
            json!({
                "class": name,
                "images": row.images,
                "right": row.right,
                "accuracy": percent(row.recall()),
                "precision": percent(row.precision()),
                "f1": percent(row.f1()),
            })
        });
        rows.collect()
    }

    fn confused_json(&self) -> Value {
        let pairs = self.judged.confused(PAIRS).into_iter().map(|pair| {
            json!({
                "class": self.name(pair.label),
                "predicted": self.name(pair.predicted),
                "images": pair.images,
            })
        });
        pairs.collect()
    }

    fn name(&self, class: usize) -> String {
        name_of(&self.images.source.classes, class)
    }
}

/// The classes with images: name, images, accuracy, precision and F1.
pub(crate) fn class_rows(judged: &Judgement, names: &[String]) -> Vec<Vec<String>> {
    let named = judged.by_class().into_iter().zip(names);
    let with_images = named.filter(|(row, _)| row.images > 0);
    let rows = with_images.map(|(row, name)| {
        vec![
            name.clone(),
            row.images.to_string(),
            percent(row.recall()),
            percent(row.precision()),
            percent(row.f1()),
        ]
    });
    rows.collect()
}

/// The most confused pairs of classes: the true one, the predicted one, images.
pub(crate) fn confused_rows(judged: &Judgement, names: &[String]) -> Vec<Vec<String>> {
    let pairs = judged.confused(PAIRS).into_iter().map(|pair| {
        vec![
            name_of(names, pair.label),
            name_of(names, pair.predicted),
            pair.images.to_string(),
        ]
    });
    pairs.collect()
}
