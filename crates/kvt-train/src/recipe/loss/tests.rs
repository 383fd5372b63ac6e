#![expect(clippy::unwrap_used, reason = "tests")]

use burn::tensor::{Device, Tensor, TensorData};
use kvt_testing::devices::devices;
use safetensors::SafeTensors;

use super::*;

fn loss(logits: &[f32], labels: &[u32], classes: usize, smoothing: f64) -> f32 {
    let device = Device::flex();
    let logits = TensorData::new(logits.to_vec(), [labels.len(), classes]);
    let config = LossConfig {
        label_smoothing: smoothing,
        ..LossConfig::default()
    };
    let targets = config.targets(labels.chunks(1), None, classes, &device);
    cross_entropy(Tensor::from_data(logits, &device), targets).into_scalar::<f32>()
}

#[test]
fn by_hand() {
    // Uniform logits: log(classes) for any smoothing.
    for smoothing in [0.0, 0.1] {
        assert!((loss(&[0.5; 8], &[1, 3], 4, smoothing) - 4f32.ln()).abs() < 1e-6);
    }
    // softmax([ln 3, 0]) = [3/4, 1/4]; target [0.95, 0.05] and its mirror.
    let expected = -(0.95 * 0.75f64.ln() + 0.05 * 0.25f64.ln());
    assert!((f64::from(loss(&[3f32.ln(), 0.0], &[0], 2, 0.1)) - expected).abs() < 1e-6);
    let expected = -(0.05 * 0.75f64.ln() + 0.95 * 0.25f64.ln());
    assert!((f64::from(loss(&[3f32.ln(), 0.0], &[1], 2, 0.1)) - expected).abs() < 1e-6);
}

#[test]
fn large_logits_do_not_overflow() {
    assert!((loss(&[1000.0, 0.0], &[1], 2, 0.0) - 1000.0).abs() < 1e-2);
    let device = Device::flex().autodiff();
    let logits = Tensor::<2>::from_data([[1000.0, -1000.0]], &device).require_grad();
    let targets = Tensor::from_data([[0.0, 0.25]], &device);
    let loss = binary_cross_entropy(logits.clone(), targets, true);
    // 1000 of the first, 0.25 * 1000 of the second.
    assert!((loss.clone().into_scalar::<f32>() - 1250.0).abs() < 1e-2);
    let gradients = loss.backward();
    let gradient = logits.grad(&gradients).unwrap().into_data();
    assert_eq!(gradient.try_to_vec::<f32>().unwrap(), [1.0, -0.25]);
}

/// The partner of image i is image n - 1 - i; a middle image is its own partner.
#[test]
fn mixed_targets_by_hand() {
    let targets = [1.0, 0.0, 0.0, 1.0, 0.5, 0.5];
    let mixed = mixed_targets(&targets, &[0.75, 0.5, 1.0], 2);
    assert_eq!(mixed, [0.875, 0.125, 0.0, 1.0, 0.5, 0.5]);
}

struct Golden<'a>(SafeTensors<'a>);

impl Golden<'_> {
    fn floats(&self, name: &str) -> Vec<f32> {
        let tensor = self.0.tensor(name).unwrap();
        let (numbers, _) = tensor.data().as_chunks::<4>();
        numbers.iter().map(|b| f32::from_le_bytes(*b)).collect()
    }

    fn tensor<const D: usize>(&self, name: &str, device: &Device) -> Tensor<D> {
        let shape = self.0.tensor(name).unwrap().shape().to_vec();
        Tensor::from_data(TensorData::new(self.floats(name), shape), device)
    }

    fn labels(&self) -> Vec<u32> {
        let tensor = self.0.tensor("labels").unwrap();
        let (numbers, _) = tensor.data().as_chunks::<8>();
        let numbers = numbers.iter().map(|b| i64::from_le_bytes(*b));
        numbers.map(|n| u32::try_from(n).unwrap()).collect()
    }
}

const GOLDEN: &[u8] = include_bytes!("../../../tests/golden/losses.safetensors");

#[track_caller]
fn assert_close(what: &str, found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (found, expected) in found.iter().zip(expected) {
        let allowed = 5e-6 * expected.abs().max(1.0);
        assert!(
            (found - expected).abs() <= allowed,
            "{what}: {found}, not {expected}"
        );
    }
}

/// Loss and gradient with respect to the logits, with labels and with mixed targets, as in timm's `BinaryCrossEntropy`.
#[test]
fn binary_cross_entropy_is_timms() {
    for (_, device) in devices() {
        check_binary_cross_entropy(&device.autodiff());
    }
}

fn check_binary_cross_entropy(device: &Device) {
    let golden = Golden(SafeTensors::deserialize(GOLDEN).unwrap());
    let labels = golden.labels();
    let shares: Vec<f64> = golden.floats("own").iter().map(|x| f64::from(*x)).collect();
    for (name, threshold, sum, mixed) in [
        ("bce_plain", None, false, false),
        ("bce_sum", None, true, false),
        ("bce_mixed", None, false, true),
        ("bce_threshold", Some(0.2), false, true),
        ("bce_threshold_sum", Some(0.5), true, true),
    ] {
        let config = LossConfig {
            kind: LossKind::Bce,
            label_smoothing: 0.1,
            bce_threshold: threshold,
            bce_sum: sum,
            ..LossConfig::default()
        };
        let logits = golden.tensor::<2>("logits", device).require_grad();
        let classes = logits.dims()[1];
        let own = mixed.then_some(shares.as_slice());
        let targets = config.targets(labels.chunks(1), own, classes, device);
        let loss = config.of(logits.clone(), targets);
        assert_close(
            name,
            &[loss.clone().into_scalar::<f32>()],
            &golden.floats(name),
        );
        let gradients = loss.backward();
        let gradient = logits.grad(&gradients).unwrap().into_data();
        let gradient: Vec<f32> = gradient.try_to_vec().unwrap();
        let grad = format!("{name}.grad");
        assert_close(&grad, &gradient, &golden.floats(&grad));
    }
}

/// Loss and gradient with respect to the logits, as PyTorch's `CrossEntropyLoss(weight=...)` has them.
#[test]
fn weighted_cross_entropy_is_pytorchs() {
    let golden = Golden(SafeTensors::deserialize(GOLDEN).unwrap());
    let labels = golden.labels();
    let shares: Vec<f64> = golden.floats("own").iter().map(|x| f64::from(*x)).collect();
    let weights = golden.floats("weights");
    for (name, smoothing, mixed) in [
        ("weighted_labels", 0.0, false),
        ("weighted_smooth", 0.1, false),
        ("weighted_mixed", 0.0, true),
        ("weighted_both", 0.1, true),
    ] {
        let config = LossConfig {
            label_smoothing: smoothing,
            ..LossConfig::default()
        };
        let device = Device::flex().autodiff();
        let logits = golden.tensor::<2>("logits", &device).require_grad();
        let own = mixed.then_some(shares.as_slice());
        let targets = config.targets(labels.chunks(1), own, weights.len(), &device);
        let targets = weighted_targets(targets, &labels, mixed, &weights);
        let loss = config.of(logits.clone(), targets);
        assert_close(
            name,
            &[loss.clone().into_scalar::<f32>()],
            &golden.floats(name),
        );
        let gradients = loss.backward();
        let gradient = logits.grad(&gradients).unwrap().into_data();
        let gradient: Vec<f32> = gradient.try_to_vec().unwrap();
        let grad = format!("{name}.grad");
        assert_close(&grad, &gradient, &golden.floats(&grad));
    }
}

#[test]
fn inverse_weights_make_classes_count_the_same() {
    // As scikit-learn's `class_weight="balanced"`: 10 / (2 * 8) and 10 / (2 * 2).
    assert_eq!(ClassWeights::Inverse.of(&[8, 2]), Some(vec![0.625, 2.5]));
    assert_eq!(ClassWeights::None.of(&[8, 2]), None);
    let each = ClassWeights::Each(vec![1.0, 3.0]);
    assert_eq!(each.of(&[8, 2]), Some(vec![1.0, 3.0]));
}

/// VOLO's loss without label maps, with mixing.
#[test]
fn token_label_losses_are_volos() {
    let golden = Golden(SafeTensors::deserialize(GOLDEN).unwrap());
    let device = Device::flex().autodiff();
    let name = "tokens_fallback";
    let class = golden.tensor::<2>("logits", &device).require_grad();
    let tokens = golden.tensor::<3>("token_logits", &device).require_grad();
    let targets = golden.tensor::<2>("crop_label", &device);
    let config = LossConfig {
        token_weight: 0.5,
        ..LossConfig::default()
    };
    let loss = config.of_tokens(class.clone(), tokens.clone(), 6, targets);
    assert_close(
        name,
        &[loss.clone().into_scalar::<f32>()],
        &golden.floats(name),
    );
    let gradients = loss.backward();
    for (part, gradient) in [
        ("class", class.grad(&gradients).unwrap().into_data()),
        ("tokens", tokens.grad(&gradients).unwrap().into_data()),
    ] {
        let gradient: Vec<f32> = gradient.try_to_vec().unwrap();
        let grad = format!("{name}.grad_{part}");
        assert_close(&grad, &gradient, &golden.floats(&grad));
    }
}
