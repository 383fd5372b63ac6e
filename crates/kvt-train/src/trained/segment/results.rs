//! The results of an evaluation of segmentation, as text, as a table, and for programs.

use serde_json::{Map, Value, json};

use crate::table::{Table, cells, or_empty};
use crate::task::{SegmentCounts, SegmentEvaluation};
use crate::trained::Images;

/// A network's results on images.
#[derive(Clone, Copy, Debug)]
pub struct SegmentResults<'a> {
    /// Over all images.
    pub evaluation: &'a SegmentEvaluation,
    /// The images.
    pub images: &'a Images,
    /// The classes in label order.
    pub classes: &'a [String],
}

impl SegmentResults<'_> {
    /// The results in a line.
    #[must_use]
    pub fn text(&self) -> String {
        let counts = self.counts();
        format!(
            "mIoU {:.2} %  mAcc {:.2} %  aAcc {:.2} %  loss {:.4}  ({} {})",
            counts.miou(),
            counts.macc(),
            counts.aacc(),
            self.evaluation.loss(),
            self.evaluation.images,
            self.images.words,
        )
    }

    /// Every class: its name, IoU, accuracy and share of the labelled pixels.
    #[must_use]
    pub fn classes(&self) -> Vec<Vec<String>> {
        let percent = |share: Option<f64>| {
            share.map_or_else(|| "-".to_owned(), |share| format!("{share:.2} %"))
        };
        let counts = self.counts();
        let rows = self.classes.iter().enumerate().map(|(class, name)| {
            vec![
                name.clone(),
                percent(counts.iou(class)),
                percent(counts.accuracy(class)),
                percent(share(counts, class)),
            ]
        });
        rows.collect()
    }

    /// Every class with its counts of pixels, as CSV: those of the class, those predicted as it, and those that are both. An empty
    /// cell is 0 / 0.
    #[must_use]
    pub fn csv(&self) -> String {
        let counts = self.counts();
        let header = "class,name,iou,accuracy,labelled,predicted,both".split(',');
        let rows = self.classes.iter().enumerate().map(|(class, name)| {
            cells([
                &class,
                name,
                &or_empty(counts.iou(class)),
                &or_empty(counts.accuracy(class)),
                &counts.labelled(class),
                &counts.predicted(class),
                &counts.intersection(class),
            ])
        });
        Table::new(header, rows).csv()
    }

    /// The results for programs, with shares in percent; `per_class` adds each class.
    #[must_use]
    pub fn json(&self, per_class: bool) -> Map<String, Value> {
        let counts = self.counts();
        let mut record = Map::new();
        let mut add = |key: &str, value: Value| record.insert(key.to_owned(), value);
        // JSON cannot hold a path that is not UTF-8.
        let root = self.images.source.root.display().to_string();
        add("data", json!(root));
        add("images", json!(self.evaluation.images));
        add("pixels", json!(counts.pixels()));
        add("loss", json!(self.evaluation.loss()));
        add("unit", json!("percent"));
        add("miou", json!(counts.miou()));
        add("macc", json!(counts.macc()));
        add("aacc", json!(counts.aacc()));
        if per_class {
            let classes = self.classes.iter().enumerate().map(|(class, name)| {
                json!({
                    "class": name,
                    "iou": counts.iou(class),
                    "accuracy": counts.accuracy(class),
                    "labelled": counts.labelled(class),
                    "predicted": counts.predicted(class),
                    "both": counts.intersection(class),
                })
            });
            add("classes", classes.collect());
        }
        record
    }

    fn counts(&self) -> &SegmentCounts {
        &self.evaluation.counts
    }
}

/// A class's share of the labelled pixels, in percent.
fn share(counts: &SegmentCounts, class: usize) -> Option<f64> {
    let pixels = counts.pixels();
    (pixels > 0).then(|| 100.0 * counts.labelled(class) as f64 / pixels as f64)
}
