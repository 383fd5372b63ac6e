//! Where the class token attends: the attention of the last block, head by head, as in DINO's figures.

use burn::tensor::Tensor;
use image::{Rgb, RgbImage};
use kvt_models::Model;

use super::layers::{Layers, Looking, attention_maps};
use kvt_train::error::TrainError;

/// The attention to each patch of an image, for one head.
#[derive(Clone, Debug, PartialEq)]
pub struct HeadMap {
    /// Rows and columns of patches.
    pub grid: [usize; 2],
    /// The weights, row by row. Together with those of the prefix tokens they sum to 1.
    pub weights: Vec<f64>,
    /// The number of patches with a weight above 0: with k-NN attention, those that it keeps.
    pub kept: usize,
}

impl HeadMap {
    /// How many times the mean of the kept patches is white at least, so that a map of even weights is dim, not white everywhere.
    const EVEN: f64 = 3.0;

    /// The weight that is drawn white: the largest, or 3 times the mean of the kept patches where that is more.
    #[must_use]
    pub fn white(&self) -> f64 {
        let largest = self.weights.iter().copied().fold(0.0, f64::max);
        let mean = self.weights.iter().sum::<f64>() / self.kept.max(1) as f64;
        largest.max(Self::EVEN * mean)
    }
}

/// Why there is no map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoMap {
    /// There is no class token among the tokens that attend.
    #[error("it has no class token among the tokens that attend")]
    NoClassToken,
    /// The attention has no probabilities.
    #[error("it has no attention probabilities there: dense and k-NN attention have them")]
    NoProbabilities,
    /// Attention stays within windows or patches.
    #[error(
        "its attention stays within windows or patches there, so that no token looks at the whole image: take another layer"
    )]
    Parts,
    /// The tokens do not form a map of the image.
    #[error("its tokens there do not form a map of the image")]
    NoGrid,
    /// The model has fewer blocks.
    #[error("it has {0} blocks, counted from 1")]
    NoSuchLayer(usize),
}

/// The class token's maps in the last block that has any, for each image `[batch, 3, height, width]` and each head.
///
/// # Errors
/// If the device fails; the inner result is an error if the model has no such map.
pub fn class_attention(
    model: &Model,
    images: Tensor<4>,
) -> Result<Result<Vec<Vec<HeadMap>>, NoMap>, TrainError> {
    let found = attention_maps(model, images, Layers::Last)?;
    Ok(found.and_then(|layers| {
        let last = layers.into_iter().next_back();
        let last = last.filter(|last| last.looking == Looking::ClassToken);
        Ok(last.ok_or(NoMap::NoClassToken)?.maps)
    }))
}

/// A map without the image, with a pixel for each patch, in the colours of an overlay.
pub fn draw_map(map: &HeadMap) -> RgbImage {
    let [rows, columns] = map.grid;
    let white = map.white();
    RgbImage::from_fn(columns as u32, rows as u32, |x, y| {
        let weight = map.weights.get(y as usize * columns + x as usize).copied();
        color(weight.unwrap_or(0.0), white)
    })
}

/// Dark blue for zero, otherwise the heat of a share of what is white.
pub(super) fn color(weight: f64, white: f64) -> Rgb<u8> {
    if weight <= 0.0 || white <= 0.0 {
        return Rgb([20, 24, 80]);
    }
    heat(weight / white)
}

/// From black at 0 through red and yellow to white at 1.
pub(super) fn heat(share: f64) -> Rgb<u8> {
    let share = share.clamp(0.0, 1.0);
    let level = |from: f64| (255.0 * ((share - from) * 3.0).clamp(0.0, 1.0)).round() as u8;
    Rgb([level(0.0), level(1.0 / 3.0), level(2.0 / 3.0)])
}
