//! A picture of validation images with their nearest training images.

use burn::tensor::Device;
use image::RgbImage;

use super::sheet;
use crate::preview;
use kvt_data::{Source, image_key};
use kvt_train::config::Plan;
use kvt_train::error::TrainError;
use kvt_train::knn_vote::{Rows, nearest};
use kvt_train::splits::{Splits, eval_transform, image_limits};

/// Images in the picture, and neighbours of each.
const SHOWN: usize = 8;
const NEIGHBORS: usize = 8;

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
