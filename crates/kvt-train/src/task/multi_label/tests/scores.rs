//! Scores and losses against scikit-learn and PyTorch: `scripts/reference/multi_label.py`.

use burn::tensor::TensorData;
use serde::Deserialize;

use super::*;
use crate::recipe::LossKind;

#[derive(Deserialize)]
struct Golden {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    logits: Vec<Vec<f32>>,
    labels: Vec<Vec<u32>>,
    thresholds: Vec<f64>,
    ap: Vec<Option<f64>>,
    precision: Vec<f64>,
    recall: Vec<f64>,
    f1: Vec<f64>,
    map: f64,
    macro_f1: f64,
    micro_f1: f64,
    loss: f64,
    smoothed: f64,
    gradient: Vec<Vec<f64>>,
}

fn cases() -> Vec<Case> {
    let text = include_str!("../../../../tests/golden/multi_label.json");
    serde_json::from_str::<Golden>(text).unwrap().cases
}

#[track_caller]
fn assert_close(what: &str, found: f64, expected: f64, allowed: f64) {
    assert!(
        (found - expected).abs() <= allowed,
        "{what}: {found}, not {expected}"
    );
}

#[test]
fn scores_are_scikit_learns() {
    for case in cases() {
        let labels: Vec<&[u32]> = case.labels.iter().map(Vec::as_slice).collect();
        let scores = LabelScores::of(&case.logits.concat(), &labels, &case.thresholds);
        for (class, score) in scores.0.iter().enumerate() {
            assert_eq!(score.ap.is_some(), case.ap[class].is_some());
            let (ap, expected) = (score.ap.unwrap_or(0.0), case.ap[class].unwrap_or(0.0));
            assert_close("ap", ap, expected, 1e-12);
            // 0 / 0 is none here, and 0 there.
            let counts = score.counts;
            for (what, found, expected) in [
                ("precision", counts.precision(), case.precision[class]),
                ("recall", counts.recall(), case.recall[class]),
                ("f1", counts.f1(), case.f1[class]),
            ] {
                assert_close(what, found.unwrap_or(0.0), expected, 1e-12);
            }
        }
        assert_close("map", scores.map(), 100.0 * case.map, 1e-10);
        assert_close("macro", scores.macro_f1(), 100.0 * case.macro_f1, 1e-10);
        assert_close("micro", scores.micro_f1(), 100.0 * case.micro_f1, 1e-10);
    }
}

/// Three images by hand: the label is at ranks 1 and 3, and then at equal scores.
#[test]
fn average_precision_by_hand() {
    let ap =
        |scores: [f32; 3], labels: [&[u32]; 3]| LabelScores::of(&scores, &labels, &[0.5]).0[0].ap;
    assert_eq!(
        ap([3.0, 2.0, 1.0], [&[0], &[], &[0]]),
        Some((1.0 + 2.0 / 3.0) / 2.0)
    );
    // Neither order of equal ones is favoured.
    assert_eq!(ap([1.0, 1.0, 0.0], [&[0], &[], &[]]), Some(0.5));
    assert_eq!(ap([1.0, 1.0, 0.0], [&[], &[0], &[]]), Some(0.5));
    assert_eq!(ap([1.0, 2.0, 3.0], [&[], &[], &[]]), None);
}

#[test]
fn a_class_without_images_is_named() {
    let case = &cases()[1];
    let labels: Vec<&[u32]> = case.labels.iter().map(Vec::as_slice).collect();
    let scores = LabelScores::of(&case.logits.concat(), &labels, &case.thresholds);
    let names = ["a", "b", "c", "d"].map(str::to_owned);
    assert_eq!(scores.without_images(&names), ["d"]);
}

/// The loss of training with its gradient, and that of an evaluation.
#[test]
fn losses_are_pytorchs() {
    let device = Device::flex().autodiff();
    for case in cases() {
        let (images, classes) = (case.logits.len(), case.thresholds.len());
        for (smoothing, expected) in [(0.0, case.loss), (0.1, case.smoothed)] {
            let config = LossConfig {
                kind: LossKind::Bce,
                label_smoothing: smoothing,
                ..LossConfig::default()
            };
            let logits = TensorData::new(case.logits.concat(), [images, classes]);
            let logits = Tensor::<2>::from_data(logits, &device).require_grad();
            let labels = case.labels.iter().map(Vec::as_slice);
            let targets = config.targets(labels, None, classes, &device);
            let loss = config.of(logits.clone(), targets);
            let gradients = loss.backward();
            assert_close("loss", loss.into_scalar::<f32>().into(), expected, 1e-6);
            if smoothing > 0.0 {
                let gradient = logits.grad(&gradients).unwrap().into_data();
                let gradient = gradient.try_to_vec::<f32>().unwrap();
                for (found, expected) in gradient.iter().zip(case.gradient.concat()) {
                    assert_close("gradient", f64::from(*found), expected, 1e-7);
                }
            }
        }
        let rows = case.logits.iter().zip(&case.labels);
        let sum: f64 = rows
            .map(|(row, labels)| evaluate::binary(row, labels))
            .sum();
        assert_close("sum", sum / (images * classes) as f64, case.loss, 1e-9);
    }
    // Where the exponential of a logit overflows.
    assert_eq!(evaluate::binary(&[1000.0, -1000.0], &[1]), 2000.0);
}
