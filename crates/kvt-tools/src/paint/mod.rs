//! Maps of classes as pictures: painted over an image, with the names of their classes, and as files of class numbers; objects with
//! their boxes.
//!
//! A map has a class for each pixel, row by row, or [`IGNORED`].

mod index;
mod legend;
mod objects;
mod palette;

use image::{Pixel, Rgb, RgbImage, imageops};
use kvt_data::IGNORED;

pub use self::index::save_index;
pub use self::legend::with_legend;
pub use self::objects::{PaintedObject, with_boxes, with_masks};
pub use self::palette::{class_color, object_color};

/// Pixels between pictures.
const GAP: u32 = 8;

/// The brightness of the picture under the half transparent colours of its classes, which the picture's own colours would change. Pixels
/// without a class stay as they are.
#[must_use]
pub fn painted(picture: &RgbImage, labels: &[u8]) -> RgbImage {
    let mut painted = picture.clone();
    for (pixel, label) in painted.pixels_mut().zip(labels) {
        if *label != IGNORED {
            *pixel = half(*pixel, class_color(*label));
        }
    }
    painted
}

/// A half transparent colour over the brightness of a pixel.
fn half(pixel: Rgb<u8>, color: [u8; 3]) -> Rgb<u8> {
    let [bright] = pixel.to_luma().0;
    Rgb(color.map(|paint| paint.midpoint(bright)))
}

/// Width and height in the same proportion, the longer one `side`.
pub(crate) fn fitted((width, height): (u32, u32), side: u32) -> (u32, u32) {
    let longer = u64::from(width.max(height).max(1));
    // At most `side`.
    let scaled = |length: u32| (u64::from(length) * u64::from(side) / longer).max(1) as u32;
    (scaled(width), scaled(height))
}

/// The name of a class, or its number.
pub(crate) fn name_of(names: &[String], class: usize) -> String {
    let name = names.get(class).cloned();
    name.unwrap_or_else(|| class.to_string())
}

/// The classes of maps, in ascending order.
#[must_use]
pub fn classes_of<'a>(maps: impl IntoIterator<Item = &'a [u8]>) -> Vec<usize> {
    let mut is_there = [false; IGNORED as usize];
    for label in maps.into_iter().flatten() {
        if let Some(is_there) = is_there.get_mut(usize::from(*label)) {
            *is_there = true;
        }
    }
    let all = is_there.into_iter().enumerate();
    all.filter_map(|(class, is_there)| is_there.then_some(class))
        .collect()
}

/// Pictures side by side, each enlarged by the same whole number to at least `least` pixels of the longer side.
#[must_use]
pub fn side_by_side(pictures: &[&RgbImage], least: u32) -> RgbImage {
    let longest = pictures.iter().map(|one| one.width().max(one.height()));
    let factor = least.div_ceil(longest.max().unwrap_or(1).max(1)).max(1);
    let sides = pictures.iter().map(|one| one.dimensions());
    let sides: Vec<_> = sides.map(|(w, h)| (w * factor, h * factor)).collect();
    let width: u32 = sides.iter().map(|(width, _)| width + GAP).sum();
    let height = sides.iter().map(|(_, height)| *height).max().unwrap_or(0);
    let mut all = RgbImage::from_pixel(width.saturating_sub(GAP), height, Rgb([255; 3]));
    let mut left = 0;
    for (picture, (width, height)) in pictures.iter().zip(sides) {
        let large = imageops::resize(*picture, width, height, imageops::FilterType::Nearest);
        imageops::replace(&mut all, &large, i64::from(left), 0);
        left += width + GAP;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_half_transparent_and_ignored_pixels_bare() {
        let picture = RgbImage::from_pixel(3, 1, Rgb([100, 200, 0]));
        let painted = painted(&picture, &[0, IGNORED, 1]);
        // 0.2126 * 100 + 0.7152 * 200
        let mean = |class: u8| class_color(class).map(|paint| ((u16::from(paint) + 164) / 2) as u8);
        assert_eq!(painted.get_pixel(0, 0).0, mean(0));
        assert_eq!(painted.get_pixel(1, 0).0, [100, 200, 0]);
        assert_eq!(painted.get_pixel(2, 0).0, mean(1));
    }

    #[test]
    fn classes_are_those_of_all_maps() {
        let maps: [&[u8]; 2] = [&[7, IGNORED, 0], &[254, 7]];
        assert_eq!(classes_of(maps), [0, 7, 254]);
        assert!(classes_of([&[IGNORED][..]]).is_empty());
    }

    #[test]
    fn pictures_stand_beside_each_other() {
        let red = RgbImage::from_pixel(4, 6, Rgb([255, 0, 0]));
        let blue = RgbImage::from_pixel(5, 2, Rgb([0, 0, 255]));
        // The longer side of all is 6: a factor of 2.
        let all = side_by_side(&[&red, &blue], 12);
        assert_eq!(all.dimensions(), (8 + GAP + 10, 12));
        let count = |colour: [u8; 3]| all.pixels().filter(|pixel| pixel.0 == colour).count();
        assert_eq!(count([255, 0, 0]), 8 * 12);
        assert_eq!(count([0, 0, 255]), 10 * 4);
        assert_eq!(all.get_pixel(8 + GAP, 3).0, [0, 0, 255]);
        // A large one stays as it is.
        assert_eq!(side_by_side(&[&red], 6).dimensions(), (4, 6));
    }
}
