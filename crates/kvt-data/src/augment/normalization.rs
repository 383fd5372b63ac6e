//! Normalisation on the device: undone, applied again, or converted to that of another model.

use burn::tensor::{Device, Tensor, TensorData};

use super::AugmentConfig;

/// Mean and standard deviation of each channel, in units of the full range of a pixel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Normalization {
    /// Subtracted first.
    pub mean: [f64; 3],
    /// The divisor, applied afterwards.
    pub std: [f64; 3],
}

impl From<&AugmentConfig> for Normalization {
    fn from(config: &AugmentConfig) -> Self {
        Self {
            mean: config.mean,
            std: config.std,
        }
    }
}

impl Normalization {
    /// The 8-bit pixels of normalised images, as numbers from 0 to 255.
    pub fn undo(&self, images: Tensor<4>) -> Tensor<4> {
        let [mean, std] = self.in_levels(&images.device());
        (images * std + mean).round()
    }

    /// Normalised images from 8-bit pixels, as timm's prefetching loader normalises them.
    pub fn apply(&self, pixels: Tensor<4>) -> Tensor<4> {
        let [mean, std] = self.in_levels(&pixels.device());
        (pixels - mean) / std
    }

    /// Mean and standard deviation in pixel levels, `[1, 3, 1, 1]`.
    fn in_levels(&self, device: &Device) -> [Tensor<4>; 2] {
        [self.mean, self.std].map(|values| channels(values.map(|value| value * 255.0), device))
    }

    /// Converts images with this normalisation to the normalisation `other`, `[n, 3, height, width]`.
    #[must_use]
    pub fn convert(&self, other: &Self, images: Tensor<4>) -> Tensor<4> {
        if self == other {
            return images;
        }
        let device = images.device();
        let [mean, std] = [self.mean, self.std].map(|values| channels(values, &device));
        let [to_mean, to_std] = [other.mean, other.std].map(|values| channels(values, &device));
        (images * std + mean - to_mean) / to_std
    }
}

fn channels(values: [f64; 3], device: &Device) -> Tensor<4> {
    let values = values.map(|value| value as f32).to_vec();
    Tensor::from_data(TensorData::new(values, [1, 3, 1, 1]), device)
}
