//! A model that is measured, with random images.

use burn::tensor::{Device, Tensor};
use kvt_models::{ModelConfig, Precision};
use kvt_ops::Key;

use super::inputs::normal;

/// The model, and how it is run.
#[derive(Clone, Debug)]
pub struct ModelCase {
    /// The kind of attention: `dense`, `knn` or another.
    pub kind: String,
    /// The model.
    pub config: ModelConfig,
    /// Images of a step or of a forward pass.
    pub batch: usize,
    /// The type of matrix products.
    pub precision: Precision,
}

impl ModelCase {
    /// The images, `[batch, channels, height, width]`.
    pub(super) fn images(&self, device: &Device) -> Tensor<4> {
        let side = self.config.img_size();
        let shape = [self.batch, self.config.in_chans(), side, side];
        normal(Key::new(0).named("images"), shape, device)
    }

    /// Keys kept per query, by stage.
    pub(super) fn kept(&self) -> Vec<usize> {
        let summary = self.config.summary();
        summary.attending().map(|stage| stage.k).collect()
    }
}
