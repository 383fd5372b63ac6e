#![expect(clippy::unwrap_used, reason = "tests")]

mod batches;
mod config;
mod harm;
mod run;
mod trajectory;

use std::path::Path;

use serde_json::json;

use super::*;
use crate::engine::{End, Start};
use crate::run::Event;
use crate::task::DenseNetwork;
use crate::task::testing::{Workspace, evals, note_of_weights, plan_of, train};

/// Three classes with an object each, of a column of 50 pixels. A detection covers some of them with its box, and some with its mask:
/// their overlap in 50ths. It counts up to that overlap, at so many of the ten thresholds.
#[test]
fn every_metric_has_its_own_number() {
    let covered = [(31, 46), (29, 31), (21, 29)];
    let expected = Metrics::from([
        ("box_ap", 100.0 * (3.0 + 2.0) / 30.0),
        ("box_ap50", 200.0 / 3.0),
        ("box_ap75", 0.0),
        ("mask_ap", 100.0 * (9.0 + 3.0 + 2.0) / 30.0),
        ("mask_ap50", 100.0),
        ("mask_ap75", 100.0 / 3.0),
    ]);
    let objects = (1_u64..).zip(covered);
    let truths = objects.clone().map(|(class, _)| {
        json!({"id": class, "image_id": 7, "category_id": class, "bbox": [0, 0, 1, 50], "area": 50,
               "segmentation": {"size": [50, 1], "counts": [0, 50]}})
    });
    let found = objects.clone().map(|(class, (of_box, of_mask))| {
        json!({"image_id": 7, "category_id": class, "score": 0.9, "bbox": [0, 0, 1, of_box],
               "segmentation": {"size": [50, 1], "counts": [0, of_mask, 50 - of_mask]}})
    });
    let classes = objects.map(|(class, _)| json!({"id": class, "name": class.to_string()}));
    let truths = json!({
        "images": [{"id": 7, "file_name": "a.png", "height": 50, "width": 1}],
        "categories": classes.collect::<Vec<_>>(), "annotations": truths.collect::<Vec<_>>(),
    });
    let folder = tempfile::tempdir().unwrap();
    let [annotations, detections] = ["a.json", "b.json"].map(|name| folder.path().join(name));
    fs_err::write(&annotations, truths.to_string()).unwrap();
    fs_err::write(
        &detections,
        found.collect::<serde_json::Value>().to_string(),
    )
    .unwrap();
    let Measured { metrics, images } = measured(&score(&annotations, &detections).unwrap());
    assert_eq!((images, metrics.iter().count()), (1, 6));
    for (name, expected) in expected.iter() {
        let found = metrics.get(name).unwrap();
        assert!((found - expected).abs() < 1e-9, "{name}: {found}");
    }
}
