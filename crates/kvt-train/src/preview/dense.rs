//! A contact sheet of images with masks: each as it is and as augmented in several epochs, under its classes.

use image::imageops::{self, FilterType};
use image::{Rgb, RgbImage};

use super::PreviewError;
use super::sheet::{COLUMNS, chosen, render};
use crate::augment::JointTrain;
use crate::config::Plan;
use crate::data::{DataError, OnError, image_key};
use crate::paint::{classes_of, painted, with_legend};
use crate::plot::encode_png;
use crate::splits::{Splits, image_limits};

/// The longer side of a cell in pixels: larger crops are shown smaller.
const MOST_SIDE: u32 = 224;

/// A PNG of the sheet.
pub(super) fn draw(plan: &Plan, splits: &Splits) -> Result<Vec<u8>, PreviewError> {
    let limits = image_limits(plan);
    let joint = JointTrain::new(&plan.dense, &plan.augment, limits).map_err(DataError::from)?;
    let [height, width] = plan.dense.crop;
    let cell = fitted((width, height), MOST_SIDE.min(height.max(width)));
    let (mut rows, mut unreadable, mut maps) = (Vec::new(), None, Vec::new());
    for index in chosen(splits.train.samples.len()) {
        // The loader's indices have 32 bits.
        let number = u32::try_from(index).unwrap_or(u32::MAX);
        let (image, map) = match splits.train.pair(number, limits) {
            Ok(pair) => pair,
            // The run skips it, too.
            Err(error) if plan.data.on_error == OnError::Skip => {
                unreadable.get_or_insert(error);
                continue;
            }
            Err(error) => return Err(DataError::from(error).into()),
        };
        let path = splits.train.samples.get(index).map(|sample| &sample.path);
        let mut pictures = vec![celled(&painted(&image, &map.labels), cell, None)];
        for epoch in 0..u64::from(COLUMNS) - 1 {
            // The draws are the same as in the run.
            let key = image_key(plan.seed, epoch, number);
            let augmented = joint.augment(image.clone(), &map, key);
            let (image, map) = augmented.map_err(|source| DataError::Augment {
                path: path.cloned().unwrap_or_default(),
                source,
            })?;
            let picture = painted(&image, &map.labels);
            pictures.push(celled(&picture, cell, Some((width, height))));
            maps.push(map.labels);
        }
        let stem = path.and_then(|path| path.file_stem());
        let name = stem.map(|stem| stem.to_string_lossy().into_owned());
        rows.push((name.unwrap_or_default(), pictures));
        maps.push(map.labels);
    }
    match unreadable {
        Some(error) if rows.is_empty() => return Err(DataError::from(error).into()),
        _ => {}
    }
    let epochs = (1..COLUMNS).map(|epoch| format!("epoch {epoch}"));
    let names: Vec<String> = std::iter::once("image".to_owned()).chain(epochs).collect();
    let size = (cell.1 as usize, cell.0 as usize);
    let sheet = render(&rows, &names, size).map_err(PreviewError::Draw)?;
    let classes = classes_of(maps.iter().map(Vec::as_slice));
    let sheet =
        with_legend(&sheet, &classes, Some(splits.classes())).map_err(PreviewError::Draw)?;
    encode_png(&sheet, sheet.width(), sheet.height()).map_err(PreviewError::Draw)
}

/// Width and height in the same proportion, the longer one `side`.
fn fitted((width, height): (u32, u32), side: u32) -> (u32, u32) {
    let longer = u64::from(width.max(height).max(1));
    // At most `side`.
    let scaled = |length: u32| (u64::from(length) * u64::from(side) / longer).max(1) as u32;
    (scaled(width), scaled(height))
}

/// A picture in the upper left of a white cell: as large as fits, or in the scale of a crop of `whole` (width, height).
fn celled(picture: &RgbImage, cell: (u32, u32), whole: Option<(u32, u32)>) -> RgbImage {
    let of = whole.unwrap_or(picture.dimensions());
    let ratio = |cell: u32, of: u32| f64::from(cell) / f64::from(of.max(1));
    let scale = ratio(cell.0, of.0).min(ratio(cell.1, of.1));
    // At most the cell.
    let side = |side: u32| ((f64::from(side) * scale) as u32).max(1);
    let (width, height) = (side(picture.width()), side(picture.height()));
    let small = imageops::resize(picture, width, height, FilterType::Nearest);
    let mut whole = RgbImage::from_pixel(cell.0, cell.1, Rgb([255; 3]));
    imageops::replace(&mut whole, &small, 0, 0);
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_have_the_proportions_of_the_crop() {
        assert_eq!(fitted((512, 512), 224), (224, 224));
        assert_eq!(fitted((512, 256), 224), (224, 112));
        assert_eq!(fitted((1, 900), 100), (1, 100));
    }

    #[test]
    fn pictures_keep_their_proportions_in_a_cell() {
        let red = Rgb([255, 0, 0]);
        let count = |picture: &RgbImage| picture.pixels().filter(|pixel| **pixel == red).count();
        let wide = RgbImage::from_pixel(80, 20, red);
        assert_eq!(count(&celled(&wide, (40, 40), None)), 40 * 10);
        // A crop that was smaller than the whole stays smaller.
        assert_eq!(count(&celled(&wide, (40, 40), Some((160, 160)))), 20 * 5);
    }
}
