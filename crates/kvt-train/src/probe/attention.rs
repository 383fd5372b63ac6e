//! Where the class token looks: the attention of the last block, head by head, as DINO's figures show it.

use burn::tensor::Tensor;
use image::{Rgb, RgbImage};
use kvt_models::Model;

use super::layers::{Layers, Looking, attention_maps};
use crate::error::TrainError;

/// How much each patch weighs in the class token of an image, for one head.
#[derive(Clone, Debug, PartialEq)]
pub struct HeadMap {
    /// Rows and columns of patches.
    pub grid: [usize; 2],
    /// The weights, row by row. With those of the prefix tokens they add up to 1.
    pub weights: Vec<f64>,
    /// Patches with a weight above 0: those that k-NN attention keeps.
    pub kept: usize,
}

/// Why there is no map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoMap {
    /// No token attends for the whole image.
    #[error("it has no class token among the tokens that attend")]
    NoClassToken,
    /// No probabilities.
    #[error("it has no attention probabilities there: dense and k-NN attention have some")]
    NoProbabilities,
    /// Attention within windows or patches.
    #[error(
        "its attention stays within windows or patches there, so that no token looks at the whole image: take another layer"
    )]
    Parts,
    /// Tokens that are no map.
    #[error("its tokens there are no map of the image")]
    NoGrid,
    /// Fewer blocks.
    #[error("it has {blocks} blocks, counted from 1")]
    NoSuchLayer {
        /// How many there are.
        blocks: usize,
    },
}

/// The maps of each head, of each image `[batch, 3, height, width]`, for the class token of the last block that has a map.
///
/// # Errors
/// If the device fails; in the result, if the model has no such map.
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

/// A map by itself, with a pixel for each patch, in the same colours.
pub fn draw_map(map: &HeadMap) -> RgbImage {
    let [rows, columns] = map.grid;
    let largest = map.weights.iter().copied().fold(0.0, f64::max);
    RgbImage::from_fn(columns as u32, rows as u32, |x, y| {
        let weight = map.weights.get(y as usize * columns + x as usize).copied();
        color(weight.unwrap_or(0.0), largest)
    })
}

/// Dark blue for nothing, else from black over red to yellow and white.
pub(super) fn color(weight: f64, largest: f64) -> Rgb<u8> {
    if weight <= 0.0 || largest <= 0.0 {
        return Rgb([20, 24, 80]);
    }
    let share = (weight / largest).clamp(0.0, 1.0);
    let level = |from: f64| (255.0 * ((share - from) * 3.0).clamp(0.0, 1.0)).round() as u8;
    Rgb([level(0.0), level(1.0 / 3.0), level(2.0 / 3.0)])
}
