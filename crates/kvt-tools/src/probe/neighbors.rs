//! A picture of validation images with their nearest training images.

use burn::tensor::Device;
use image::imageops::{self, FilterType};
use image::{Rgb, RgbImage};

use crate::preview;
use kvt_data::{Source, image_key};
use kvt_train::config::Plan;
use kvt_train::error::TrainError;
use kvt_train::knn_vote::{Rows, nearest};
use kvt_train::splits::{Splits, eval_transform, image_limits};

/// Images in the picture, and neighbours of each.
const SHOWN: usize = 8;
const NEIGHBORS: usize = 8;
/// Pixels between pictures, and of the frame around each.
const GAP: u32 = 6;
const FRAME: u32 = 3;
/// A smaller picture is enlarged by a whole factor to at least this side.
const LEAST_SIDE: u32 = 64;

/// Draws some validation images of `size` (height, width), at equal distances, each with the training images that are nearest by
/// their features, and whether these are of its class.
///
/// # Errors
/// If an image cannot be read, or the device fails.
pub fn draw_neighbors(
    (plan, splits, size): (&Plan, &Splits, (usize, usize)),
    [bank, queries]: [&Rows; 2],
    device: &Device,
) -> Result<RgbImage, TrainError> {
    let some = queries.some(preview::chosen(SHOWN, queries.len()));
    let mut found = Vec::new();
    nearest(bank, &some, NEIGHBORS, device, |nearest| {
        found.push(nearest.to_vec());
    })?;
    let transform = eval_transform(plan, size)?;
    let image = |source: &Source, index: u32| {
        let key = image_key(0, 0, index);
        let view = source.view(index, image_limits(plan), &transform, key)?;
        Ok::<_, TrainError>(preview::picture(&view.pixels, size, &plan.augment))
    };
    let queries = some.labels.iter().zip(&some.indices);
    let mut rows = Vec::new();
    for ((label, index), nearest) in queries.zip(&found) {
        let mut row = vec![(image(&splits.val, *index)?, None)];
        let known = bank.some(nearest.iter().map(|(place, _)| *place));
        for (neighbor, index) in known.labels.iter().zip(known.indices) {
            row.push((image(&splits.train, index)?, Some(neighbor == label)));
        }
        rows.push(row);
    }
    Ok(sheet(&rows))
}

/// One picture of a row, and whether its frame marks it as right (`true`) or wrong; the query image has no frame.
pub(super) type Tile = (RgbImage, Option<bool>);

/// Rows of pictures of one size on white: the neighbours' frames are blue where the class is the same, and orange where not.
pub(super) fn sheet(rows: &[Vec<Tile>]) -> RgbImage {
    let first = rows.first().and_then(|row| row.first());
    let (width, height) = first.map_or((1, 1), |(image, _)| image.dimensions());
    let factor = LEAST_SIDE.div_ceil(width.max(height).max(1)).max(1);
    let (width, height) = (width * factor, height * factor);
    let [cell_width, cell_height] = [width, height].map(|side| side + 2 * FRAME + GAP);
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0) as u32;
    let size = (
        GAP + columns * cell_width,
        GAP + rows.len() as u32 * cell_height,
    );
    let mut sheet = RgbImage::from_pixel(size.0, size.1, Rgb([255; 3]));
    for (row, tiles) in (0..).zip(rows) {
        for (column, (image, is_right)) in (0..).zip(tiles) {
            let (left, top) = (GAP + column * cell_width, GAP + row * cell_height);
            let color = match is_right {
                Some(true) => Rgb([0, 114, 178]),
                Some(false) => Rgb([213, 94, 0]),
                None => Rgb([255; 3]),
            };
            let frame = RgbImage::from_pixel(width + 2 * FRAME, height + 2 * FRAME, color);
            imageops::replace(&mut sheet, &frame, left.into(), top.into());
            let image = imageops::resize(image, width, height, FilterType::Nearest);
            imageops::replace(
                &mut sheet,
                &image,
                (left + FRAME).into(),
                (top + FRAME).into(),
            );
        }
    }
    sheet
}
