//! An image as a map of patches.

use image::RgbImage;
use plotters::style::RGBColor;

/// Side of the image in pixels.
pub(crate) const PIXELS: u32 = 64;
/// Side of a patch in pixels.
const PATCH: u32 = 4;
/// Patches along a side of the image.
pub(crate) const GRID: usize = (PIXELS / PATCH) as usize;
/// Row and column of the query's patch.
const QUERY: [usize; 2] = [6, 9];

/// A square map of patches, row by row. A patch is its pixels.
pub(crate) struct Map {
    pub(crate) side: usize,
    patches: Vec<Vec<f32>>,
}

impl Map {
    /// Cuts an image into patches.
    pub(crate) fn cut(image: &RgbImage) -> Self {
        let patch = |i: usize| {
            let (left, top) = (PATCH * (i % GRID) as u32, PATCH * (i / GRID) as u32);
            let places = (0..PATCH * PATCH).map(|i| (left + i % PATCH, top + i / PATCH));
            let pixels = places.flat_map(|(x, y)| image.get_pixel(x, y).0);
            pixels.map(|value| f32::from(value) / 255.0).collect()
        };
        Self {
            side: GRID,
            patches: (0..GRID * GRID).map(patch).collect(),
        }
    }

    /// Each 2 x 2 patches become their mean.
    pub(crate) fn pooled(&self) -> Self {
        let side = self.side / 2;
        let pool = |i: usize| {
            let first = 2 * (i / side) * self.side + 2 * (i % side);
            let four = [0, 1, self.side, self.side + 1].map(|step| &self.patches[first + step]);
            let length = four[0].len();
            let mean = |j: usize| four.iter().map(|patch| patch[j]).sum::<f32>() / 4.0;
            (0..length).map(mean).collect()
        };
        Self {
            side,
            patches: (0..side * side).map(pool).collect(),
        }
    }

    /// The mean colour of a patch.
    pub(crate) fn color(&self, place: usize) -> RGBColor {
        let [red, green, blue] = mean_color(&self.patches[place]);
        let byte = |value: f32| (value * 255.0).round() as u8;
        RGBColor(byte(red), byte(green), byte(blue))
    }

    /// The patches less the mean colour of the image.
    pub(crate) fn vectors(&self) -> Vec<Vec<f32>> {
        let mean = mean_color(&self.patches.concat());
        let center = |patch: &Vec<f32>| {
            let values = patch.iter().zip(mean.iter().cycle());
            values.map(|(value, mean)| value - mean).collect()
        };
        self.patches.iter().map(center).collect()
    }
}

fn mean_color(pixels: &[f32]) -> [f32; 3] {
    let count = (pixels.len() / 3) as f32;
    [0, 1, 2].map(|channel| pixels.iter().skip(channel).step_by(3).sum::<f32>() / count)
}

/// Where the query is in a map of `side` x `side` patches.
pub(crate) fn query_place(side: usize) -> usize {
    let [row, column] = QUERY.map(|place| place * side / GRID);
    row * side + column
}
