//! Cross-entropy with soft targets, which serves label smoothing now and mixed images later.

use crate::schema::section;
use burn::tensor::activation::log_softmax;
use burn::tensor::{Device, Tensor, TensorData};

section! {
    /// What training minimises: cross-entropy.
    pub struct LossConfig {
        /// Share of the target that is spread over all classes.
        pub label_smoothing: f64 = 0.1, "x-range" = "[0, 1)";
    }
}

/// The target distributions of a batch, `[batch, classes]`: `1 - s + s / classes` on the label and
/// `s / classes` elsewhere, with the smoothing `s` (timm's and PyTorch's `label_smoothing`).
pub fn smooth_targets(
    labels: &[u32],
    classes: usize,
    smoothing: f64,
    device: &Device,
) -> Tensor<2> {
    let off = smoothing / classes as f64;
    let on = (1.0 - smoothing + off) as f32;
    let mut targets = vec![off as f32; labels.len() * classes];
    for (row, &label) in targets.chunks_exact_mut(classes).zip(labels) {
        if let Some(target) = row.get_mut(label as usize) {
            *target = on;
        }
    }
    Tensor::from_data(TensorData::new(targets, [labels.len(), classes]), device)
}

/// Mean over the batch of `-sum_c target_c log softmax(logits)_c`.
///
/// # Shapes
/// `logits` and `targets`: `[batch, classes]`; the result is `[1]`.
pub fn cross_entropy(logits: Tensor<2>, targets: Tensor<2>) -> Tensor<1> {
    let batch = logits.dims()[0] as f64;
    (log_softmax(logits, 1) * targets).sum() * (-1.0 / batch)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(logits: &[f32], labels: &[u32], classes: usize, smoothing: f64) -> f32 {
        let device = Device::flex();
        let logits = TensorData::new(logits.to_vec(), [labels.len(), classes]);
        let targets = smooth_targets(labels, classes, smoothing, &device);
        cross_entropy(Tensor::from_data(logits, &device), targets).into_scalar::<f32>()
    }

    #[test]
    fn by_hand() {
        // Uniform logits: log(classes) whatever the smoothing.
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
    }
}
