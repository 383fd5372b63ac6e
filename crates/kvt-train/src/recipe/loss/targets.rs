//! Target distributions, computed on the host, row by row.

use burn::tensor::{Device, Tensor, TensorData};

use super::{LossConfig, LossKind};

impl LossConfig {
    /// The targets of a batch, `[batch, classes]`: smoothed; mixed if `own_shares` contains the weight of each image's
    /// own target ([`mixed_targets`]); and 0 or 1 if there is a [`bce_threshold`](Self::bce_threshold). `labels` has those of each
    /// image: one, or any number with the binary cross-entropy.
    pub fn targets<'l>(
        &self,
        labels: impl ExactSizeIterator<Item = &'l [u32]>,
        own_shares: Option<&[f64]>,
        classes: usize,
        device: &Device,
    ) -> Tensor<2> {
        let count = labels.len();
        let mut targets = smoothed(labels, classes, self.label_smoothing);
        if let Some(own_shares) = own_shares {
            targets = mixed_targets(&targets, own_shares, classes);
        }
        if let (LossKind::Bce, Some(threshold)) = (self.kind, self.bce_threshold) {
            for target in &mut targets {
                *target = f32::from(*target > threshold as f32);
            }
        }
        Tensor::from_data(TensorData::new(targets, [count, classes]), device)
    }
}

/// The target distributions of a batch, `[batch, classes]`: `1 - s + s / classes` on the labels of an image and
/// `s / classes` elsewhere, with the smoothing `s` (timm's and PyTorch's `label_smoothing`).
fn smoothed<'l>(
    labels: impl ExactSizeIterator<Item = &'l [u32]>,
    classes: usize,
    smoothing: f64,
) -> Vec<f32> {
    let off = smoothing / classes as f64;
    let on = (1.0 - smoothing + off) as f32;
    let mut targets = vec![off as f32; labels.len() * classes];
    for (row, labels) in targets.chunks_exact_mut(classes).zip(labels) {
        for &label in labels {
            if let Some(target) = row.get_mut(label as usize) {
                *target = on;
            }
        }
    }
    targets
}

/// The targets of mixed images, `[batch, classes]`: `own_share` of row `i`, and the rest from row `n - 1 - i`, its
/// partner (timm's `mixup_target`).
pub fn mixed_targets(targets: &[f32], own_shares: &[f64], classes: usize) -> Vec<f32> {
    let rows = targets.chunks_exact(classes);
    let partners = targets.chunks_exact(classes).rev();
    rows.zip(partners)
        .zip(own_shares)
        .flat_map(|((row, partner), &own)| {
            let (own, other) = (own as f32, (1.0 - own) as f32);
            row.iter()
                .zip(partner)
                .map(move |(a, b)| a * own + b * other)
        })
        .collect()
}
