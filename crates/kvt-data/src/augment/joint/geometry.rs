//! Resizing, cropping and flipping of an image together with its mask.

use fast_image_resize::images::{TypedImage, TypedImageRef};
use fast_image_resize::pixels::U8x3;
use fast_image_resize::{FilterType, ResizeAlg, ResizeOptions, Resizer};
use image::{RgbImage, imageops};
use kvt_ops::Key;
use rand::RngExt;

use crate::augment::resize::{cut, outside};
use crate::augment::{AugmentError, Crop};
use crate::{IGNORED, LabelMap};

/// How often a crop is drawn again.
const REDRAWS: u64 = 10;

/// Width and height of an image that is resized to keep within a longest and a shortest side, as `mmcv` rounds them.
pub(in crate::augment) fn fitted(
    (width, height): (u32, u32),
    [long, short]: [u32; 2],
) -> (u32, u32) {
    let (most, least) = (f64::from(width.max(height)), f64::from(width.min(height)));
    let scale = (f64::from(long) / most).min(f64::from(short) / least);
    let side = |side: u32| ((f64::from(side) * scale + 0.5) as u32).max(1);
    (side(width), side(height))
}

/// An image resized bilinearly without antialiasing, as OpenCV does it: up to 1 of 255 differs.
pub(in crate::augment) fn resize(
    image: RgbImage,
    (width, height): (u32, u32),
) -> Result<RgbImage, AugmentError> {
    let (columns, rows) = image.dimensions();
    if columns == 0 || rows == 0 {
        return Err(AugmentError::Empty);
    }
    if (columns, rows) == (width, height) {
        return Ok(image);
    }
    let options = ResizeOptions::new().resize_alg(ResizeAlg::Interpolation(FilterType::Bilinear));
    let source =
        TypedImageRef::<U8x3>::from_buffer(columns, rows, image.as_raw()).map_err(outside)?;
    let mut result = RgbImage::new(width, height);
    let mut target =
        TypedImage::<U8x3>::from_buffer(width, height, &mut result).map_err(outside)?;
    Resizer::new().resize_typed(&source, &mut target, &options)?;
    Ok(result)
}

/// A mask resized to (width, height): each pixel is that at `floor(x * old / new)`, without half pixels, as OpenCV has it.
pub(super) fn nearest(map: &LabelMap, (width, height): (u32, u32)) -> LabelMap {
    let (rows, columns) = map.size;
    let (width, height) = (width as usize, height as usize);
    let across: Vec<usize> = (0..width).map(|x| x * columns / width).collect();
    let labels = (0..height).flat_map(|y| {
        let from = y * rows / height * columns;
        let row = map.labels.get(from..from + columns).unwrap_or_default();
        across.iter().filter_map(|&x| row.get(x).copied())
    });
    LabelMap {
        labels: labels.collect(),
        size: (height, width),
    }
}

/// The random crop of a mask, of (height, width) or as much of it as there is: up to ten are drawn again, the last one stands.
pub(super) fn draw_crop(map: &LabelMap, size: [u32; 2], most: f64, key: Key) -> Crop {
    // From an image with sides of 32 bits.
    let (rows, columns) = (map.size.0 as u32, map.size.1 as u32);
    let (height, width) = (size[0].min(rows), size[1].min(columns));
    let draw = |attempt: u64| {
        let mut rng = key.child(attempt).rng();
        Crop {
            top: rng.random_range(0..=rows - height),
            left: rng.random_range(0..=columns - width),
            width,
            height,
        }
    };
    chosen(map, most, draw)
}

/// The first of ten draws that is mixed enough, else the eleventh.
pub(super) fn chosen(map: &LabelMap, most: f64, draw: impl Fn(u64) -> Crop) -> Crop {
    let mut crops = (0..REDRAWS).map(&draw);
    let first = crops.find(|crop| is_mixed(map, *crop, most));
    first.unwrap_or_else(|| draw(REDRAWS))
}

/// Whether a crop has two classes, and less than the share `most` of each; any has with 1.
fn is_mixed(map: &LabelMap, crop: Crop, most: f64) -> bool {
    if most >= 1.0 {
        return true;
    }
    let mut counts = [0_u32; 256];
    for label in rows_of(map, crop).flatten() {
        counts[usize::from(*label)] += 1;
    }
    counts[usize::from(IGNORED)] = 0;
    let classes = counts.iter().filter(|count| **count > 0).count();
    let largest = counts.iter().max().copied().unwrap_or_default();
    let all: u32 = counts.iter().sum();
    classes > 1 && f64::from(largest) / f64::from(all) < most
}

/// The rows of a crop.
fn rows_of(map: &LabelMap, crop: Crop) -> impl Iterator<Item = &[u8]> {
    let columns = map.size.1;
    (crop.top..crop.top + crop.height).map(move |y| {
        let from = y as usize * columns + crop.left as usize;
        map.labels
            .get(from..from + crop.width as usize)
            .unwrap_or_default()
    })
}

/// An image and its mask, cut.
pub(super) fn crop(image: RgbImage, map: &LabelMap, crop: Crop) -> (RgbImage, LabelMap) {
    let labels = LabelMap {
        labels: rows_of(map, crop).flatten().copied().collect(),
        size: (crop.height as usize, crop.width as usize),
    };
    (cut(image, crop), labels)
}

/// An image and its mask, mirrored.
pub(super) fn flip(image: &mut RgbImage, map: &mut LabelMap) {
    imageops::flip_horizontal_in_place(image);
    map.labels
        .chunks_exact_mut(map.size.1.max(1))
        .for_each(<[u8]>::reverse);
}

/// A mask with ignored pixels at the right and bottom, up to (height, width).
pub(super) fn pad(map: &LabelMap, (height, width): (usize, usize)) -> LabelMap {
    let mut labels = vec![IGNORED; height * width];
    let rows = map.labels.chunks_exact(map.size.1.max(1));
    for (to, from) in labels.chunks_exact_mut(width.max(1)).zip(rows) {
        to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
    }
    LabelMap {
        labels,
        size: (height, width),
    }
}
