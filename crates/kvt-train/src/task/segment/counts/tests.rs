#![expect(clippy::unwrap_used, reason = "tests")]

use serde_json::Value;

use super::*;

/// Worked out by hand: class 1 is labelled where 0 and 2 are predicted once each, two pixels are ignored, class 3 is in neither.
#[test]
fn the_case_worked_by_hand() {
    let mut counts = SegmentCounts::new(4);
    let prediction = [0, 0, 1, 1, 0, 2, 2, 1, 0, 2, 2, 2];
    counts.add(&prediction, &[0, 0, 0, 1, 0, 1, 2, 1, 255, 2, 2, 255]);
    let rows = counts.rows.iter();
    let all: Vec<_> = rows
        .map(|row| (row.right, row.predicted, row.images))
        .collect();
    assert_eq!(all, [(3, 3, 4), (2, 3, 3), (3, 4, 3), (0, 0, 0)]);
    let ious: Vec<_> = counts.rows.iter().map(|row| row.iou_percent()).collect();
    assert_eq!(ious, [Some(75.0), Some(50.0), Some(75.0), None]);
    assert!((counts.miou() - 200.0 / 3.0).abs() < 1e-12);
    assert!((counts.macc() - (75.0 + 200.0 / 3.0 + 100.0) / 3.0).abs() < 1e-12);
    assert_eq!(counts.aacc(), 80.0);
}

/// The labels themselves as predictions are right, and no pixels at all give no number.
#[test]
fn perfect_and_empty() {
    let mut counts = SegmentCounts::new(3);
    assert!(counts.miou().is_nan() && counts.macc().is_nan() && counts.aacc().is_nan());
    counts.add(&[0, 2, 2], &[0, 2, 255]);
    assert_eq!(
        (counts.miou(), counts.macc(), counts.aacc()),
        (100.0, 100.0, 100.0)
    );
}

fn bytes(rows: &Value) -> Vec<u8> {
    let rows = rows.as_array().unwrap().iter();
    rows.flat_map(|row| row.as_array().unwrap())
        .map(|label| u8::try_from(label.as_u64().unwrap()).unwrap())
        .collect()
}

fn assert_close(ours: Option<f64>, theirs: &Value, what: &str) {
    match (ours, theirs.as_f64()) {
        (Some(ours), Some(theirs)) => {
            assert!((ours - theirs).abs() < 1e-9, "{what}: {ours} {theirs}");
        }
        (ours, theirs) => assert_eq!(ours, theirs, "{what}"),
    }
}

/// `scripts/reference/miou.py` writes the numbers of MMSegmentation's `IoUMetric`.
#[test]
fn counts_and_metrics_are_those_of_mmsegmentation() {
    let golden = include_str!("../../../../tests/golden/dense/miou.json");
    let golden: Value = serde_json::from_str(golden).unwrap();
    let cases = golden["cases"].as_object().unwrap();
    assert!(cases.len() >= 5);
    for (name, case) in cases {
        let classes = case["classes"].as_u64().unwrap();
        let mut counts = SegmentCounts::new(usize::try_from(classes).unwrap());
        for image in case["images"].as_array().unwrap() {
            counts.add(&bytes(&image["prediction"]), &bytes(&image["label"]));
        }
        for (class, row) in counts.rows.iter().enumerate() {
            let both = row.right;
            let union = row.predicted + row.images - both;
            assert_eq!(
                case["intersection"][class].as_f64(),
                Some(both as f64),
                "{name}"
            );
            assert_eq!(case["union"][class].as_f64(), Some(union as f64), "{name}");
            assert_close(row.iou_percent(), &case["iou"][class], name);
            assert_close(row.accuracy_percent(), &case["acc"][class], name);
        }
        assert_close(Some(counts.miou()), &case["miou"], name);
        assert_close(Some(counts.macc()), &case["macc"], name);
        assert_close(Some(counts.aacc()), &case["aacc"], name);
    }
}
