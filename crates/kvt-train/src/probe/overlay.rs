//! Maps of attention, drawn on the image that they are of.

use image::{Rgb, RgbImage, imageops};

use super::attention::{HeadMap, color};
use super::picture::enlarged;

/// Pixels of a patch in the picture, at least, and between the parts.
const PATCH: u32 = 8;
const GAP: u32 = 8;
/// How much of a colour is on the image: where the weight is small, where it is the largest, and where a patch is not kept.
const FAINT: f64 = 0.15;
const STRONG: f64 = 0.7;
const DROPPED: f64 = 0.7;

/// Where maps are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drawn {
    /// On the image: the larger the weight of a patch, the more it glows; a patch that is not kept is grey and dark.
    OnImage,
    /// Beside the image: the largest weight is white, a small one black, and a patch that is not kept dark blue.
    Beside,
}

/// A row for each block: the image, and a part for each head.
pub fn draw(image: &RgbImage, rows: &[Vec<HeadMap>], drawn: Drawn) -> RgbImage {
    let (width, _) = image.dimensions();
    let finest = rows.iter().flatten().map(|map| map.grid[1]).max();
    let finest = u32::try_from(finest.unwrap_or(1)).unwrap_or(1);
    let factor = (PATCH * finest).div_ceil(width.max(1)).max(1);
    let image = enlarged(image, factor);
    let (width, height) = image.dimensions();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0) as u32 + 1;
    let size = (
        GAP + columns * (width + GAP),
        GAP + rows.len().max(1) as u32 * (height + GAP),
    );
    let mut sheet = RgbImage::from_pixel(size.0, size.1, Rgb([255; 3]));
    for (row, maps) in (0..).zip(rows) {
        let top = i64::from(GAP + row * (height + GAP));
        imageops::replace(&mut sheet, &image, GAP.into(), top);
        for (place, map) in (1..).zip(maps) {
            let left = i64::from(GAP + place * (width + GAP));
            imageops::replace(&mut sheet, &part(&image, map, drawn), left, top);
        }
    }
    sheet
}

fn part(image: &RgbImage, map: &HeadMap, drawn: Drawn) -> RgbImage {
    let (width, height) = image.dimensions();
    let [rows, columns] = map.grid;
    let largest = map.weights.iter().copied().fold(0.0, f64::max);
    RgbImage::from_fn(width, height, |x, y| {
        let row = y as usize * rows / height as usize;
        let column = x as usize * columns / width as usize;
        let weight = map
            .weights
            .get(row * columns + column)
            .copied()
            .unwrap_or(0.0);
        if drawn == Drawn::Beside {
            return color(weight, largest);
        }
        let pixel = *image.get_pixel(x, y);
        if weight <= 0.0 || largest <= 0.0 {
            return mixed(grey(pixel), color(0.0, largest), DROPPED);
        }
        let share = FAINT + (STRONG - FAINT) * (weight / largest).clamp(0.0, 1.0);
        mixed(pixel, color(weight, largest), share)
    })
}

/// The brightness of a pixel (ITU-R BT.601), as Pillow's `L`.
fn grey(Rgb([red, green, blue]): Rgb<u8>) -> Rgb<u8> {
    let level = 0.299 * f64::from(red) + 0.587 * f64::from(green) + 0.114 * f64::from(blue);
    Rgb([level.round() as u8; 3])
}

/// A share of one colour over another.
fn mixed(under: Rgb<u8>, over: Rgb<u8>, share: f64) -> Rgb<u8> {
    let mut pixel = under;
    for (level, over) in pixel.0.iter_mut().zip(over.0) {
        *level = (f64::from(*level) * (1.0 - share) + f64::from(over) * share).round() as u8;
    }
    pixel
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two blocks with one and two heads on a red image: the largest weight is white over red, half of it orange, and what is not
    /// kept dark blue over the grey of red.
    #[test]
    fn maps_lie_on_the_image() {
        let map = |weights: [f64; 4]| HeadMap {
            grid: [2, 2],
            weights: weights.to_vec(),
            kept: 3,
        };
        let first = map([0.5, 0.25, 0.0, 0.1]);
        let red = Rgb([200, 0, 0]);
        let image = RgbImage::from_pixel(16, 16, red);
        let rows = [vec![first.clone()], vec![first, map([0.1; 4])]];
        let sheet = draw(&image, &rows, Drawn::OnImage);
        assert_eq!(sheet.dimensions(), (8 + 3 * 24, 8 + 2 * 24));
        let at = |x, y| *sheet.get_pixel(x, y);
        // The image at the left of both rows.
        assert_eq!([at(8, 8), at(8, 32)], [red; 2]);
        // 0.3 of (200, 0, 0) and 0.7 of white.
        assert_eq!(at(32, 8), Rgb([239, 179, 179]));
        // Half of the largest: 0.575 of it and 0.425 of (255, 128, 0).
        assert_eq!(at(40, 8), Rgb([223, 54, 0]));
        // Grey 60: 0.3 of it and 0.7 of (20, 24, 80).
        assert_eq!(at(32, 16), Rgb([32, 35, 74]));
        assert_eq!(at(32, 32), at(32, 8));
        // All patches alike, at the end of the second row; nothing there in the first.
        assert_eq!(at(56, 32), Rgb([239, 179, 179]));
        assert_eq!(at(56, 8), Rgb([255; 3]));
        let beside = draw(&image, &rows[..1], Drawn::Beside);
        assert_eq!(beside.dimensions(), (8 + 2 * 24, 8 + 24));
        let at = |x, y| *beside.get_pixel(x, y);
        let expected = [red, Rgb([255; 3]), Rgb([255, 128, 0]), Rgb([20, 24, 80])];
        assert_eq!([at(8, 8), at(32, 8), at(40, 8), at(32, 16)], expected);
    }
}
