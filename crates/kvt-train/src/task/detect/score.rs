//! How good the detections of a file are, by the annotations of another.

use std::path::Path;

use kvt_data::coco::{Coco, read_results};
use kvt_data::{DataError, ImageObjects, OnError};
use serde_json::{Map, Value, json};

use super::ap::{AveragePrecision, Instance, Shapes, average_precision};

/// Average precision of a file of detections.
#[derive(Clone, Debug, PartialEq)]
pub struct Scores {
    /// Number of images in the annotations.
    pub images: usize,
    /// Number of detections.
    pub detections: usize,
    /// The classes' names, in label order.
    pub classes: Vec<String>,
    /// By boxes.
    pub boxes: AveragePrecision,
    /// By masks, if all objects and all detections have one.
    pub masks: Option<AveragePrecision>,
}

impl Scores {
    /// Compares what is found with what is there, by masks only `with_masks` and if all objects have one.
    pub(super) fn of(
        images: usize,
        classes: Vec<String>,
        truths: &[Instance],
        found: &[Instance],
        with_masks: bool,
    ) -> Self {
        let precision = |shapes| average_precision(shapes, classes.len(), truths, found);
        let with_masks = with_masks && truths.iter().all(|one| one.mask.is_some());
        Self {
            images,
            detections: found.len(),
            boxes: precision(Shapes::Boxes),
            masks: with_masks.then(|| precision(Shapes::Masks)),
            classes,
        }
    }

    /// Boxes, and masks if they are compared.
    pub fn kinds(&self) -> impl Iterator<Item = (&'static str, &AveragePrecision)> {
        let masks = self.masks.iter().map(|found| ("masks", found));
        std::iter::once(("boxes", &self.boxes)).chain(masks)
    }

    /// The heading of [`rows`](Self::rows) and [`class_rows`](Self::class_rows), after `first`.
    pub fn header<'a>(&self, first: &'a str) -> impl Iterator<Item = &'a str> + use<'a> {
        let masks = self.masks.as_ref().map(|_| "masks");
        [first, "boxes"].into_iter().chain(masks)
    }

    /// The twelve numbers in percent, of boxes and, if they are compared, of masks; `nothing` stands where nothing counts.
    #[must_use]
    pub fn rows(&self, nothing: &str) -> Vec<Vec<String>> {
        let names = self.boxes.numbers().map(|(_, words, _)| words);
        let numbers = |of: &AveragePrecision| of.numbers().map(|(.., number)| number).to_vec();
        self.table(names.into_iter(), nothing, numbers)
    }

    /// The same of the average precision of each class.
    #[must_use]
    pub fn class_rows(&self, nothing: &str) -> Vec<Vec<String>> {
        let names = self.classes.iter().map(String::as_str);
        self.table(names, nothing, |of| of.classes.clone())
    }

    fn table<'a>(
        &self,
        names: impl Iterator<Item = &'a str>,
        nothing: &str,
        numbers: impl Fn(&AveragePrecision) -> Vec<Option<f64>>,
    ) -> Vec<Vec<String>> {
        let columns: Vec<Vec<Option<f64>>> = self.kinds().map(|(_, of)| numbers(of)).collect();
        let rows = names.enumerate().map(|(at, name)| {
            let own = columns.iter().map(|column| match column.get(at) {
                Some(Some(share)) => format!("{:.1}", 100.0 * share),
                _ => nothing.to_owned(),
            });
            std::iter::once(name.to_owned()).chain(own).collect()
        });
        rows.collect()
    }

    /// The numbers for programs, between 0 and 1, null where nothing counts; with `per_class` also the average precision of each class.
    #[must_use]
    pub fn json(&self, per_class: bool) -> Map<String, Value> {
        let of = |found: &AveragePrecision| {
            let numbers = found.numbers().into_iter();
            let numbers = numbers.map(|(key, _, value)| (key.to_owned(), json!(value)));
            let mut all: Map<String, Value> = numbers.collect();
            if per_class {
                let classes = self.classes.iter().zip(&found.classes);
                let rows = classes.map(|(name, ap)| json!({ "class": name, "ap": ap }));
                all.insert("classes".to_owned(), rows.collect());
            }
            Value::from(all)
        };
        let mut all = Map::new();
        all.insert("images".to_owned(), json!(self.images));
        all.insert("detections".to_owned(), json!(self.detections));
        let kinds = self.kinds();
        all.extend(kinds.map(|(kind, found)| (kind.to_owned(), of(found))));
        all
    }
}

/// Compares detections in COCO's format of results with annotations. Images without detections count, too.
///
/// # Errors
/// If a file cannot be read, or does not belong to the other.
pub fn score(annotations: &Path, detections: &Path) -> Result<Scores, DataError> {
    let coco = Coco::read(annotations, OnError::Fail)?;
    let found = read_results(detections, &coco)?;
    let found = found.into_iter().map(|one| Instance {
        image: one.image,
        class: one.label,
        bbox: one.bbox,
        area: None,
        is_crowd: false,
        score: one.score,
        mask: one.mask,
    });
    let found: Vec<Instance> = found.collect();
    let with_masks = !found.is_empty() && found.iter().all(|one| one.mask.is_some());
    let images = coco.images.iter().enumerate();
    let images = images.map(|(place, image)| ImageObjects {
        image,
        annotations: coco.annotations(place),
    });
    let truths = truths(images, with_masks);
    let classes = coco.categories.iter().map(|class| class.name.clone());
    let classes = classes.collect();
    let images = coco.images.len();
    Ok(Scores::of(images, classes, &truths, &found, with_masks))
}

/// The objects of images, by their ids. Masks are drawn only where they are compared.
pub(super) fn truths<'a>(
    images: impl Iterator<Item = ImageObjects<'a>>,
    with_masks: bool,
) -> Vec<Instance> {
    let mut truths = Vec::new();
    for ImageObjects { image, annotations } in images {
        for one in annotations {
            truths.push(Instance {
                image: image.id,
                class: one.label,
                bbox: one.bbox,
                area: Some(one.area),
                is_crowd: one.is_crowd,
                score: 0.0,
                mask: if with_masks {
                    one.mask(image.size)
                } else {
                    None
                },
            });
        }
    }
    truths
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    const ANNOTATIONS: &str = r#"{
        "images": [{"id": 7, "file_name": "a.png", "height": 20, "width": 30}, {"id": 9, "file_name": "b.png", "height": 20, "width": 30}],
        "categories": [{"id": 4, "name": "cat"}, {"id": 2, "name": "dog"}],
        "annotations": [
            {"id": 1, "image_id": 7, "category_id": 4, "bbox": [5, 4, 15, 10], "area": 150, "iscrowd": 0,
             "segmentation": {"size": [20, 30], "counts": "X3::000000000000000000000000000T6"}}
        ]
    }"#;

    fn scores(detections: &str) -> Result<Scores, DataError> {
        compared(ANNOTATIONS, detections)
    }

    fn compared(annotations: &str, detections: &str) -> Result<Scores, DataError> {
        let folder = tempfile::tempdir().unwrap();
        let [truth, found] = ["truth.json", "found.json"].map(|name| folder.path().join(name));
        fs_err::write(&truth, annotations).unwrap();
        fs_err::write(&found, detections).unwrap();
        score(&truth, &found)
    }

    /// The object itself is found: with its mask, by both; with its box alone, by boxes.
    #[test]
    fn an_object_that_is_found_counts() {
        let exact = scores(
            r#"[{"image_id": 7, "category_id": 4, "score": 0.9,
                 "segmentation": {"size": [20, 30], "counts": "X3::000000000000000000000000000T6"}}]"#,
        )
        .unwrap();
        assert_eq!((exact.images, exact.detections), (2, 1));
        assert_eq!(exact.classes, ["dog", "cat"]);
        // As pycocotools has it, a precision of 1 is 2e-16 below.
        let is_full = |ap: Option<f64>| ap.is_some_and(|ap| (ap - 1.0).abs() < 1e-15);
        for of in [&exact.boxes, exact.masks.as_ref().unwrap()] {
            // A class without objects counts nowhere.
            assert!(is_full(of.ap) && is_full(of.classes[1]), "{of:?}");
            assert_eq!(of.classes[0], None);
        }
        let boxed =
            scores(r#"[{"image_id": 7, "category_id": 4, "score": 0.9, "bbox": [5, 4, 15, 10]}]"#)
                .unwrap();
        assert!(is_full(boxed.boxes.ap) && boxed.masks.is_none());
        let nothing = scores("[]").unwrap();
        assert_eq!((nothing.boxes.ap, nothing.masks), (Some(0.0), None));
    }

    /// A better detection in a crowd is neither right nor wrong, and an object is as large as its annotation says, not as its box.
    #[test]
    fn crowds_and_areas_are_those_of_the_annotations() {
        let annotations = r#"{
            "images": [{"id": 7, "file_name": "a.png", "height": 20, "width": 30}],
            "categories": [{"id": 4, "name": "cat"}],
            "annotations": [
                {"id": 1, "image_id": 7, "category_id": 4, "bbox": [0, 0, 10, 10], "area": 5000, "iscrowd": 0},
                {"id": 2, "image_id": 7, "category_id": 4, "bbox": [15, 0, 15, 20], "area": 300, "iscrowd": 1}
            ]
        }"#;
        let detections = r#"[
            {"image_id": 7, "category_id": 4, "score": 0.9, "bbox": [16, 2, 10, 10]},
            {"image_id": 7, "category_id": 4, "score": 0.8, "bbox": [0, 0, 10, 10]}
        ]"#;
        let of = compared(annotations, detections).unwrap().boxes;
        for ap in [of.ap, of.ap_medium, of.ar100] {
            assert!(ap.is_some_and(|ap| (ap - 1.0).abs() < 1e-15), "{of:?}");
        }
        assert_eq!((of.ap_small, of.ap_large), (None, None));
    }

    /// What does not belong to the annotations is named.
    #[test]
    fn other_detections_are_refused() {
        for (one, expected) in [
            (
                r#"{"image_id": 8, "category_id": 4, "score": 1, "bbox": [0, 0, 1, 1]}"#,
                "no image 8",
            ),
            (
                r#"{"image_id": 7, "category_id": 3, "score": 1, "bbox": [0, 0, 1, 1]}"#,
                "no category 3",
            ),
            (
                r#"{"image_id": 7, "category_id": 4, "score": 1}"#,
                "neither `bbox`",
            ),
            (
                r#"{"image_id": 7, "category_id": 4, "score": 1, "segmentation": {"size": [30, 20], "counts": [600]}}"#,
                "30 x 20",
            ),
            (
                r#"{"image_id": 7, "category_id": 4, "bbox": [0, 0, 1, 1]}"#,
                "`score`",
            ),
        ] {
            let error = scores(&format!("[{one}]")).unwrap_err().to_string();
            assert!(
                error.contains(expected) && error.contains("found.json"),
                "{error}"
            );
        }
    }
}
