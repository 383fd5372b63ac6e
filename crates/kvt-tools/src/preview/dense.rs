//! A contact sheet of images with masks or objects: each as it is and as augmented in several epochs, under its classes.

use image::imageops::{self, FilterType};
use image::{Rgb, RgbImage};
use kvt_ops::Key;

use super::sheet::{COLUMNS, Row, path, render, rows};
use crate::paint::{
    PaintedObject, classes_of, fitted, painted, with_boxes, with_legend, with_masks,
};
use crate::trained::TrainedError;
use kvt_data::augment::{JointTrain, Objects, PrepareObjects};
use kvt_data::{DataError, ImageObjects, image_key};
use kvt_train::config::Plan;
use kvt_train::plot::encode_png;
use kvt_train::splits::{Splits, image_limits};

/// The longer side of a cell in pixels: larger crops are shown smaller.
const MOST_SIDE: u32 = 224;
/// The same for objects, whose outlines need more room.
const MOST_OBJECTS: u32 = 320;

/// A PNG of the sheet of images with masks.
pub(super) fn draw(plan: &Plan, splits: &Splits) -> Result<Vec<u8>, TrainedError> {
    let limits = image_limits(plan);
    let joint = JointTrain::new(&plan.dense, &plan.augment, limits).map_err(DataError::from)?;
    let [height, width] = plan.dense.crop;
    let cell = fitted((width, height), MOST_SIDE.min(height.max(width)));
    let mut maps = Vec::new();
    let read = |number| splits.train.pair(number, limits);
    let rows = rows(plan, splits, read, |(image, map), number| {
        let picture = painted(&image, &map.labels);
        let mut pictures = vec![celled(&picture, &[], FilterType::Nearest, cell, None)?];
        for key in keys(plan, number) {
            let augmented = joint.augment(image.clone(), &map, key);
            let (image, map) = augmented.map_err(|error| error.at(path(splits, number)))?;
            let picture = painted(&image, &map.labels);
            let whole = Some((width, height));
            pictures.push(celled(&picture, &[], FilterType::Nearest, cell, whole)?);
            maps.push(map.labels);
        }
        maps.push(map.labels);
        Ok((name(splits, number), pictures))
    })?;
    let classes = classes_of(maps.iter().map(Vec::as_slice));
    finished(&rows, cell, &classes, splits)
}

/// A PNG of the sheet of images with objects: their pixels with an outline, and their boxes.
pub(super) fn draw_objects(plan: &Plan, splits: &Splits) -> Result<Vec<u8>, TrainedError> {
    let limits = image_limits(plan);
    let most = plan.multiscale.max;
    let train =
        PrepareObjects::train(&plan.multiscale, &plan.augment, limits).map_err(DataError::from)?;
    let cell = (MOST_OBJECTS.min(most), MOST_OBJECTS.min(most));
    let mut classes = Vec::new();
    let read = |number| splits.train.annotated(number, limits);
    let rows = rows(plan, splits, read, |(image, found), number| {
        let objects = annotated(found);
        let boxed = |image: &RgbImage, objects: &[PaintedObject], whole| {
            let picture = with_masks(image, objects);
            celled(&picture, objects, FilterType::Triangle, cell, whole)
        };
        let mut pictures = vec![boxed(&image, &objects, None)?];
        classes.extend(objects.iter().map(|one| one.label));
        for key in keys(plan, number) {
            let augmented = train.augment(image.clone(), found, key);
            let (image, objects) = augmented.map_err(|error| error.at(path(splits, number)))?;
            let objects = of_augmented(objects);
            pictures.push(boxed(&image, &objects, Some((most, most)))?);
        }
        Ok((name(splits, number), pictures))
    })?;
    // Augmentation adds no class.
    classes.sort_unstable();
    classes.dedup();
    finished(&rows, cell, &classes, splits)
}

/// The name of an image's file.
fn name(splits: &Splits, number: u32) -> String {
    let path = path(splits, number);
    let name = path.file_stem().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// The keys of an image in the first epochs: the draws are the same as in the run.
fn keys(plan: &Plan, number: u32) -> impl Iterator<Item = Key> {
    let seed = plan.seed;
    (0..u64::from(COLUMNS) - 1).map(move |epoch| image_key(seed, epoch, number))
}

/// A PNG of rows, with the names of classes below.
fn finished(
    rows: &[Row],
    cell: (u32, u32),
    classes: &[usize],
    splits: &Splits,
) -> Result<Vec<u8>, TrainedError> {
    let epochs = (1..COLUMNS).map(|epoch| format!("epoch {epoch}"));
    let names: Vec<String> = std::iter::once("image".to_owned()).chain(epochs).collect();
    let size = (cell.1 as usize, cell.0 as usize);
    let sheet = render(rows, &names, size).map_err(TrainedError::Draw)?;
    let sheet = with_legend(&sheet, classes, splits.classes()).map_err(TrainedError::Draw)?;
    encode_png(&sheet, sheet.width(), sheet.height()).map_err(TrainedError::Draw)
}

/// The objects of an image that are trained on, without words.
fn annotated(found: ImageObjects<'_>) -> Vec<PaintedObject> {
    let size = found.image.size;
    let all = found.trained();
    all.map(|one| PaintedObject::of(one, size, String::new()))
        .collect()
}

/// The same after augmentation.
fn of_augmented(objects: Objects) -> Vec<PaintedObject> {
    let all = objects.all.into_iter().map(|object| {
        let [x1, y1, x2, y2] = object.corners.map(f64::from);
        PaintedObject {
            label: object.label,
            bbox: [x1, y1, x2 - x1, y2 - y1],
            mask: Some(object.mask),
            words: String::new(),
        }
    });
    all.collect()
}

/// A picture in the upper left of a white cell: as large as fits, or in the scale of a crop of `whole` (width, height). The lines of the
/// objects' boxes are as thick as those of the cell.
fn celled(
    picture: &RgbImage,
    objects: &[PaintedObject],
    filter: FilterType,
    cell: (u32, u32),
    whole: Option<(u32, u32)>,
) -> Result<RgbImage, TrainedError> {
    let size = picture.dimensions();
    let of = whole.unwrap_or(size);
    let ratio = |cell: u32, of: u32| f64::from(cell) / f64::from(of.max(1));
    let scale = ratio(cell.0, of.0).min(ratio(cell.1, of.1));
    // At most the cell.
    let side = |side: u32| ((f64::from(side) * scale) as u32).max(1);
    let small = imageops::resize(picture, side(size.0), side(size.1), filter);
    let small = with_boxes(small, objects, size).map_err(TrainedError::Draw)?;
    let mut whole = RgbImage::from_pixel(cell.0, cell.1, Rgb([255; 3]));
    imageops::replace(&mut whole, &small, 0, 0);
    Ok(whole)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

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
        let wide = RgbImage::from_pixel(80, 20, red);
        let count = |whole| {
            let picture = celled(&wide, &[], FilterType::Nearest, (40, 40), whole).unwrap();
            picture.pixels().filter(|pixel| **pixel == red).count()
        };
        assert_eq!(count(None), 40 * 10);
        // A crop that was smaller than the whole stays smaller.
        assert_eq!(count(Some((160, 160))), 20 * 5);
    }
}
