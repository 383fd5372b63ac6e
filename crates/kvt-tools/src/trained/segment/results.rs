//! The results of an evaluation of segmentation, as text, as a table, and for programs.

use serde_json::{Value, json};

use crate::trained::Images;
use kvt_train::judge::ClassRow;
use kvt_train::table::{Table, cells, or_empty};
use kvt_train::task::{SegmentCounts, SegmentEvaluation};

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
            self.evaluation.loss,
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
        let pixels = self.counts().pixels();
        // A class's share of the labelled pixels.
        let share =
            |row: &ClassRow| (pixels > 0).then(|| 100.0 * row.images as f64 / pixels as f64);
        let rows = self.rows().map(|(name, row)| {
            vec![
                name.clone(),
                percent(row.iou_percent()),
                percent(row.accuracy_percent()),
                percent(share(row)),
            ]
        });
        rows.collect()
    }

    /// Every class with its counts of pixels, as CSV: those of the class, those predicted as it, and those that are both. An empty
    /// cell is 0 / 0.
    #[must_use]
    pub fn csv(&self) -> String {
        let header = "class,name,iou,accuracy,labelled,predicted,both".split(',');
        let rows = self.rows().enumerate().map(|(class, (name, row))| {
            cells([
                &class,
                name,
                &or_empty(row.iou_percent()),
                &or_empty(row.accuracy_percent()),
                &row.images,
                &row.predicted,
                &row.right,
            ])
        });
        Table::new(header, rows).csv()
    }

    /// The results for programs, with shares in percent; `per_class` adds each class.
    #[must_use]
    pub fn json(&self, per_class: bool) -> Value {
        let counts = self.counts();
        let mut record = json!({
            // JSON cannot hold a path that is not UTF-8.
            "data": self.images.source.root.display().to_string(),
            "images": self.evaluation.images,
            "pixels": counts.pixels(),
            "loss": self.evaluation.loss,
            "unit": "percent",
            "miou": counts.miou(),
            "macc": counts.macc(),
            "aacc": counts.aacc(),
        });
        if per_class {
            let classes = self.rows().map(|(name, row)| {
                json!({
                    "class": name,
                    "iou": row.iou_percent(),
                    "accuracy": row.accuracy_percent(),
                    "labelled": row.images,
                    "predicted": row.predicted,
                    "both": row.right,
                })
            });
            record["classes"] = classes.collect();
        }
        record
    }

    fn counts(&self) -> &SegmentCounts {
        &self.evaluation.counts
    }

    /// Each class and its counts.
    fn rows(&self) -> impl Iterator<Item = (&String, &ClassRow)> {
        self.classes.iter().zip(&self.counts().rows)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::sync::Arc;

    use super::*;
    use kvt_data::{ClassOrder, Source};

    /// The case of the plan, by hand: of four classes, one is nowhere.
    #[test]
    fn tables_have_the_counts_of_the_pixels() {
        let mut counts = SegmentCounts::new(4);
        counts.add(
            &[0, 0, 1, 1, 0, 2, 2, 1, 0, 2, 2, 2],
            &[0, 0, 0, 1, 0, 1, 2, 1, 255, 2, 2, 255],
        );
        let evaluation = SegmentEvaluation {
            counts,
            images: 1,
            loss: 0.5,
        };
        let folder = tempfile::tempdir().unwrap();
        for class in ["a", "b"] {
            fs_err::create_dir(folder.path().join(class)).unwrap();
            fs_err::write(folder.path().join(class).join("a.png"), "").unwrap();
        }
        let images = Images {
            source: Arc::new(Source::open(folder.path(), ClassOrder::Byte).unwrap()),
            words: "images".to_owned(),
            left_out: Some(0),
            among: None,
        };
        let classes = ["sky", "a, b", "sea", "nothing"].map(str::to_owned);
        let results = SegmentResults {
            evaluation: &evaluation,
            images: &images,
            classes: &classes,
        };
        assert_eq!(
            results.text(),
            "mIoU 66.67 %  mAcc 80.56 %  aAcc 80.00 %  loss 0.5000  (1 images)"
        );
        assert_eq!(
            results.csv(),
            "class,name,iou,accuracy,labelled,predicted,both\n\
             0,sky,75,75,4,3,3\n\
             1,\"a, b\",50,66.66666666666667,3,3,2\n\
             2,sea,75,100,3,4,3\n\
             3,nothing,,,0,0,0\n"
        );
        let rows = results.classes();
        assert_eq!(rows[1], ["a, b", "50.00 %", "66.67 %", "30.00 %"]);
        assert_eq!(rows[3], ["nothing", "-", "-", "0.00 %"]);
        let json = results.json(true);
        assert_eq!(json["classes"][2]["both"], 3);
        assert!(json["classes"][3]["iou"].is_null());
        assert_eq!((&json["pixels"], &json["aacc"]), (&json!(10), &json!(80.0)));
        assert!(results.json(false).get("classes").is_none());
    }
}
