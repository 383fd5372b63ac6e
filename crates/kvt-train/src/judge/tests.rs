#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;

fn batch(targets: &[u32]) -> Batch {
    Batch {
        views: Vec::new(),
        indices: (0..).take(targets.len()).collect(),
        targets: targets.to_vec(),
    }
}

fn names() -> Vec<String> {
    ["a", "b, c", "d"].map(str::to_owned).into()
}

/// Seven images of three classes, worked by hand. True to predicted: a-a, a-a, a-b, b-b, b-a, b-a, d-b.
fn judged() -> Judgement {
    let labels = [0, 0, 0, 1, 1, 1, 2];
    let predicted = [0, 0, 1, 1, 0, 0, 1];
    let mut logits = Vec::new();
    for class in predicted {
        let mut row = [0.0; 3];
        // softmax([ln 8, 0, 0]) = [0.8, 0.1, 0.1]
        row[class] = 8f32.ln();
        logits.extend(row);
    }
    let mut judged = Judgement::new(3);
    judged.hear(&batch(&labels[..4]), &logits[..12]);
    judged.hear(&batch(&labels[4..]), &logits[12..]);
    judged
}

#[test]
fn classes_by_hand() {
    let judged = judged();
    let rows = judged.by_class();
    let counts = rows
        .iter()
        .map(|row| (row.images, row.predicted, row.right));
    assert_eq!(
        counts.collect::<Vec<_>>(),
        [(3, 4, 2), (3, 3, 1), (1, 0, 0)]
    );
    assert_eq!(rows[0].recall(), Some(2.0 / 3.0));
    assert_eq!(rows[0].precision(), Some(0.5));
    // 2 * (2/3 * 1/2) / (2/3 + 1/2) = 4/7
    assert!((rows[0].f1().unwrap() - 4.0 / 7.0).abs() < 1e-12);
    assert_eq!((rows[2].recall(), rows[2].precision()), (Some(0.0), None));
    // (2/3 + 1/3 + 0) / 3
    assert!((judged.balanced_accuracy() - 1.0 / 3.0).abs() < 1e-12);
}

/// As scikit-learn has them; a class without an image does not count, though it is predicted.
#[test]
fn means_over_classes_are_scikit_learns() {
    let golden = include_str!("../../tests/golden/macro_average.json");
    let golden: serde_json::Value = serde_json::from_str(golden).unwrap();
    let numbers = |key: &str| -> Vec<u32> { serde_json::from_value(golden[key].clone()).unwrap() };
    let mut rows = vec![ClassRow::default(); 7];
    for (label, predicted) in numbers("labels").into_iter().zip(numbers("predicted")) {
        ClassRow::count(&mut rows, label, Some(predicted));
    }
    assert!(rows[2].predicted == 0 && rows[5].images == 0 && rows[5].predicted > 0);
    for (key, share) in [
        ("recall", ClassRow::recall as fn(ClassRow) -> Option<f64>),
        ("f1", ClassRow::f1),
    ] {
        let expected = golden[key].as_f64().unwrap();
        let found = ClassRow::mean(&rows, share);
        assert!(
            (found - expected).abs() < 1e-12,
            "{key}: {found}, not {expected}"
        );
    }
    // An image without a prediction is wrong.
    ClassRow::count(&mut rows, 0, None);
    assert!(ClassRow::mean(&rows, ClassRow::recall) < golden["recall"].as_f64().unwrap());
}

#[test]
fn the_most_confused_pairs_come_first() {
    let pair = |label, predicted, images| Confused {
        label,
        predicted,
        images,
    };
    let expected = [pair(1, 0, 2), pair(0, 1, 1), pair(2, 1, 1)];
    assert_eq!(judged().confused(9), expected);
    assert_eq!(judged().confused(1), expected[..1]);
}

#[test]
fn tables_as_csv() {
    let judged = judged();
    assert_eq!(
        judged.confusion_csv(&names()),
        "class,a,\"b, c\",d\na,2,1,0\n\"b, c\",2,1,0\nd,0,1,0\n"
    );
    let text = judged.classes_csv(&names());
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "class,images,right,accuracy,precision,f1");
    assert!(lines[1].starts_with("a,3,2,0.666666666666666"), "{text}");
    assert_eq!(lines[3], "d,1,0,0,,0");
    assert_eq!((judged.count(1, 0), judged.count(2, 2)), (2, 0));
}

/// With as many classes as ImageNet-21k, the whole confusion matrix is not written.
#[test]
fn many_classes_take_no_square() {
    let classes = 21_841;
    let mut judged = Judgement::new(classes);
    let mut logits = vec![0.0; 2 * classes];
    logits[21_840] = 1.0;
    logits[classes + 7] = 1.0;
    judged.hear(&batch(&[21_840, 3]), &logits);
    let names: Vec<String> = (0..classes).map(|class| format!("c{class}")).collect();
    assert_eq!(
        judged.confusion_csv(&names),
        "class,predicted,images\nc3,c7,1\nc21840,c21840,1\n"
    );
    let rows = judged.by_class();
    assert_eq!(rows.len(), classes);
    assert_eq!(
        (rows[3].images, rows[3].right, rows[7].predicted),
        (1, 0, 1)
    );
    assert_eq!(rows[21_840].recall(), Some(1.0));
}

/// All seven have a confidence of 0.8 and three are right: |3/7 - 0.8|. Two others at 0.2 and 0.21, right and wrong, are in two
/// bins: (0.1333, 0.2] and (0.2, 0.2667].
#[test]
fn calibration_by_hand() {
    let judged = judged();
    let error = judged.calibration().error();
    assert!((error - (0.8 - 3.0 / 7.0)).abs() < 1e-6, "{error}");
    assert!((judged.calibration().confidence() - 0.8).abs() < 1e-6);
    let mut some = Calibration::default();
    assert_eq!(some.error(), 0.0);
    some.hear(0.2, true);
    some.hear(0.21, false);
    assert!((some.error() - (0.8 + 0.21) / 2.0).abs() < 1e-12);
    some.hear(1.0, true);
    some.hear(0.0, false);
    assert!((some.error() - (0.8 + 0.21) / 4.0).abs() < 1e-12);
}

/// Ranks as [`correct`](crate::judge::correct) does, and leaves out classes that must not be chosen.
#[test]
fn classes_are_ranked_as_accuracy_counts_them() {
    let none = f32::NEG_INFINITY;
    assert_eq!(ranked(&[0.5; 7]), [0, 1, 2, 3, 4]);
    assert_eq!(ranked(&[0.1, 0.9, none, 0.9]), [1, 3, 0]);
    assert_eq!(ranked(&[1.0, f32::NAN]), Vec::<u32>::new());
    for seed in 0..200_u32 {
        let row: Vec<f32> = (0..9)
            .map(|class| ((seed * 31 + class * 17) % 7) as f32)
            .collect();
        let best = ranked(&row);
        for label in 0..9 {
            let found = correct(&row, &[label], 9);
            assert_eq!(found.top1 == 1, best[0] == label);
            assert_eq!(found.top5 == 1, best.contains(&label));
        }
    }
    assert!((probability(&[3f32.ln(), 0.0, none], 0) - 0.75).abs() < 1e-6);
}

#[test]
fn reassessed_labels_are_any_of_several_or_none() {
    // Image 0 has two labels, image 1 none, image 2 one.
    let labels = RealLabels::of_lists(&[&[1, 2], &[], &[0]]);
    let mut judged = Judgement::new(3).with_real(labels, vec![0, 1, 2]);
    assert_eq!(judged.real(), None);
    let logits = [0.0, 1.0, 2.0, 9.0, 0.0, 0.0, 0.0, 0.0, 1.0];
    judged.hear(&batch(&[0, 0, 0]), &logits);
    // Image 0 is right by its second label, image 1 is not counted, and image 2 is wrong, but its label is second best.
    assert_eq!(judged.real(), Some((2, 50.0, 100.0)));
}

/// If the model can choose only classes 0 and 1, other labels are left out: image 0 keeps one of its two, image 2 none.
#[test]
fn reassessed_labels_among_some_of_the_classes() {
    let labels = RealLabels::of_lists(&[&[1, 2], &[0], &[2]]).among(&[true, true, false]);
    let mut judged = Judgement::new(3).with_real(labels, vec![0, 1, 2]);
    let none = f32::NEG_INFINITY;
    let logits = [0.0, 1.0, none, 0.0, 1.0, none, 0.0, 1.0, none];
    judged.hear(&batch(&[1, 0, 0]), &logits);
    assert_eq!(judged.real(), Some((2, 50.0, 100.0)));
}
