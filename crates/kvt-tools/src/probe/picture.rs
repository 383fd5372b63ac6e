//! Pictures of a probe: sample images with their nearest neighbours.

use image::imageops::{self, FilterType};
use image::{Rgb, RgbImage};

/// Pixels between pictures, and of the frame around each.
const GAP: u32 = 6;
const FRAME: u32 = 3;
/// A smaller picture is enlarged by a whole factor to at least this side.
const LEAST_SIDE: u32 = 64;

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
