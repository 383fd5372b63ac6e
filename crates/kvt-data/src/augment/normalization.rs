//! Normalisation on the device: undone, applied again, or converted to that of another model.

use burn::tensor::{Device, Tensor, TensorData};

use super::AugmentConfig;

/// Mean and standard deviation of each channel, in units of the full range of a pixel.
#[derive(Clone, Debug, PartialEq)]
pub struct Normalization {
    /// Subtracted first.
    pub mean: Vec<f64>,
    /// The divisor, applied afterwards.
    pub std: Vec<f64>,
}

impl From<&AugmentConfig> for Normalization {
    fn from(config: &AugmentConfig) -> Self {
        Self {
            mean: config.mean.clone(),
            std: config.std.clone(),
        }
    }
}

impl Normalization {
    /// The 8-bit pixels of normalised images, as numbers from 0 to 255.
    pub fn undo(&self, images: Tensor<4>) -> Tensor<4> {
        let [mean, std] = self.tensors(255.0, &images.device());
        (images * std + mean).round()
    }

    /// Normalised images from 8-bit pixels, as timm's prefetching loader normalises them.
    pub fn apply(&self, pixels: Tensor<4>) -> Tensor<4> {
        let [mean, std] = self.tensors(255.0, &pixels.device());
        (pixels - mean) / std
    }

    /// Mean and standard deviation, `[1, channels, 1, 1]`; `unit` is the full range of a pixel.
    fn tensors(&self, unit: f64, device: &Device) -> [Tensor<4>; 2] {
        [&self.mean, &self.std].map(|values| {
            let values: Vec<f32> = values.iter().map(|value| (value * unit) as f32).collect();
            let shape = [1, values.len(), 1, 1];
            Tensor::from_data(TensorData::new(values, shape), device)
        })
    }

    /// Converts images with this normalisation to the normalisation `other`, `[n, channels, height, width]`.
    #[must_use]
    pub fn convert(&self, other: &Self, images: Tensor<4>) -> Tensor<4> {
        if self == other {
            return images;
        }
        let device = images.device();
        let [mean, std] = self.tensors(1.0, &device);
        let [to_mean, to_std] = other.tensors(1.0, &device);
        (images * std + mean - to_mean) / to_std
    }
}
