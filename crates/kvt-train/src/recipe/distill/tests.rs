#![expect(clippy::unwrap_used, reason = "tests")]

use burn::tensor::{Device, Tensor, TensorData};
use kvt_testing::devices::devices;
use safetensors::SafeTensors;

use super::*;
use crate::recipe::cross_entropy;

const GOLDEN: &[u8] = include_bytes!("../../../tests/golden/losses.safetensors");

fn floats(name: &str) -> Vec<f32> {
    let file = SafeTensors::deserialize(GOLDEN).unwrap();
    let tensor = file.tensor(name).unwrap();
    let (numbers, _) = tensor.data().as_chunks::<4>();
    numbers.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

fn tensor(name: &str, device: &Device) -> Tensor<2> {
    let data = floats(name);
    let rows = data.len() / 5;
    Tensor::from_data(TensorData::new(data, [rows, 5]), device)
}

#[track_caller]
fn assert_close(what: &str, found: Tensor<2>) {
    let found: Vec<f32> = found.into_data().try_to_vec().unwrap();
    let expected = floats(what);
    assert_eq!(found.len(), expected.len(), "{what}");
    for (found, expected) in found.iter().zip(&expected) {
        let allowed = 5e-6 * expected.abs().max(1.0);
        assert!(
            (found - expected).abs() <= allowed,
            "{what}: {found}, not {expected}"
        );
    }
}

/// Loss and gradients as in DeiT's `DistillationLoss`, and with the sum divided by the batch; and finally with one
/// head, which learns from both.
#[test]
fn distillation_is_deits() {
    for (_, device) in devices() {
        check_distillation(&device.autodiff());
    }
}

fn check_distillation(device: &Device) {
    for (name, kind, divisor, heads) in [
        ("distill_hard", DistillKind::Hard, DistillDivisor::Batch, 2),
        (
            "distill_legacy",
            DistillKind::Soft,
            DistillDivisor::Legacy,
            2,
        ),
        ("distill_batch", DistillKind::Soft, DistillDivisor::Batch, 2),
        (
            "distill_single",
            DistillKind::Soft,
            DistillDivisor::Batch,
            1,
        ),
    ] {
        let config = DistillConfig {
            kind,
            alpha: 0.3,
            temperature: 2.0,
            divisor,
            ..DistillConfig::default()
        };
        let class = tensor("logits", device).require_grad();
        let dist = tensor("dist_logits", device).require_grad();
        let student = if heads == 2 { &dist } else { &class };
        let base = cross_entropy(class.clone(), tensor("crop_label", device));
        let loss = config.blend(base, student.clone(), tensor("teacher", device));
        assert_close(name, loss.clone().unsqueeze());
        let gradients = loss.backward();
        let gradient = |of: &Tensor<2>| of.grad(&gradients).unwrap();
        assert_close(&format!("{name}.grad_class"), gradient(&class));
        if heads == 2 {
            assert_close(&format!("{name}.grad_dist"), gradient(&dist));
        }
    }
}

#[test]
fn without_a_kind_there_is_only_the_base() {
    let device = Device::flex();
    let base = Tensor::<1>::from_data([3.0], &device);
    let (student, teacher) = (tensor("logits", &device), tensor("teacher", &device));
    let loss = DistillConfig::default().blend(base, student, teacher);
    assert_eq!(loss.into_scalar::<f32>(), 3.0);
}

/// The divergence from oneself is 0 at any temperature.
#[test]
fn a_teacher_that_agrees_has_no_soft_loss() {
    let device = Device::flex();
    let logits = tensor("logits", &device);
    for temperature in [0.5, 1.0, 4.0] {
        let loss = soft_distillation(
            logits.clone(),
            logits.clone() + 3.0,
            temperature,
            DistillDivisor::Batch,
        );
        assert!(loss.into_scalar::<f32>().abs() < 1e-5);
    }
}
