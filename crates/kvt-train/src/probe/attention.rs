//! Where the class token looks: the attention of the last block, head by head, as DINO's figures show it.

use std::cell::RefCell;

use burn::tensor::Tensor;
use image::{Rgb, RgbImage, imageops};
use kvt_models::{Ask, Backbone, BlockIndex, Model, Observer, Point};
use kvt_ops::Phase;

use super::picture::enlarged;
use super::rows::read;
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
    #[error("its last block has no attention probabilities: dense and k-NN attention have some")]
    NoProbabilities,
}

/// Remembers the probabilities of the block that spoke last.
#[derive(Default)]
struct Last(RefCell<Option<Tensor<4>>>);

impl Observer for Last {
    fn wants(&self, _: BlockIndex, point: Point) -> bool {
        point == Point::Probabilities
    }

    fn tokens(&self, _: BlockIndex, _: Point, _: Tensor<3>) {}

    fn probabilities(&self, _: BlockIndex, probabilities: Tensor<4>) {
        *self.0.borrow_mut() = Some(probabilities);
    }
}

/// The maps of each head, of each image `[batch, 3, height, width]`, for the class token of the last block that attends.
///
/// # Errors
/// If the device fails; in the result, if the model has no such map.
pub fn class_attention(
    model: &Model,
    images: Tensor<4>,
) -> Result<Result<Vec<Vec<HeadMap>>, NoMap>, TrainError> {
    let last = Last::default();
    let ask = Ask {
        observer: Some(&last),
        precision: model.precision(),
        ..Ask::default()
    };
    let count = images.dims()[0];
    let features = model.backbone.features(images, &ask, Phase::Eval);
    let Some(probabilities) = last.0.into_inner() else {
        return Ok(Err(NoMap::NoProbabilities));
    };
    let [batch, heads, _, keys] = probabilities.dims();
    let prefix = features.prefix;
    let patches = keys.saturating_sub(prefix);
    let side = patches.isqrt();
    if prefix == 0 || batch != count || side == 0 || side * side != patches {
        return Ok(Err(NoMap::NoClassToken));
    }
    let row = probabilities.narrow(2, 0, 1).narrow(3, prefix, patches);
    let weights = read(row)?;
    let maps = weights.chunks_exact(patches).map(|weights| HeadMap {
        grid: [side; 2],
        kept: weights.iter().filter(|weight| **weight > 0.0).count(),
        weights: weights.iter().copied().map(f64::from).collect(),
    });
    let maps: Vec<HeadMap> = maps.collect();
    Ok(Ok(maps.chunks(heads).map(<[HeadMap]>::to_vec).collect()))
}

/// Pixels of a patch in the picture, at least, and between the parts.
const PATCH: u32 = 8;
const GAP: u32 = 8;

/// An image and the maps of its heads side by side: the brightest patch of each has the largest weight; what is not kept is dark
/// blue.
pub fn draw_maps(image: &RgbImage, maps: &[HeadMap]) -> RgbImage {
    let (width, height) = image.dimensions();
    let [rows, columns] = maps.first().map_or([1, 1], |map| map.grid);
    let factor = (PATCH * columns as u32).div_ceil(width.max(1)).max(1);
    let (width, height) = (width * factor, height * factor);
    let count = maps.len() as u32 + 1;
    let mut sheet =
        RgbImage::from_pixel(GAP + count * (width + GAP), height + 2 * GAP, Rgb([255; 3]));
    let left = |place: u32| i64::from(GAP + place * (width + GAP));
    imageops::replace(&mut sheet, &enlarged(image, factor), left(0), GAP.into());
    for (place, map) in (1..).zip(maps) {
        let largest = map.weights.iter().copied().fold(0.0, f64::max);
        let part = RgbImage::from_fn(width, height, |x, y| {
            let row = y as usize * rows / height as usize;
            let column = x as usize * columns / width as usize;
            let weight = map.weights.get(row * columns + column).copied();
            color(weight.unwrap_or(0.0), largest)
        });
        imageops::replace(&mut sheet, &part, left(place), GAP.into());
    }
    sheet
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
fn color(weight: f64, largest: f64) -> Rgb<u8> {
    if weight <= 0.0 || largest <= 0.0 {
        return Rgb([20, 24, 80]);
    }
    let share = (weight / largest).clamp(0.0, 1.0);
    let level = |from: f64| (255.0 * ((share - from) * 3.0).clamp(0.0, 1.0)).round() as u8;
    Rgb([level(0.0), level(1.0 / 3.0), level(2.0 / 3.0)])
}
