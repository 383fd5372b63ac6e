//! Blends of an image with a degenerate one, as in Pillow's `ImageEnhance`: a factor of 0 gives the degenerate image, 1 the
//! original, and larger factors exaggerate.

use image::RgbImage;

use super::color::luma;
use super::point::map_all;

/// Pillow's `Image.blend` of two images of equal size: `share` 0 is `first`, 1 is `second`. The result replaces `second`.
pub fn blend(first: &RgbImage, second: &mut RgbImage, share: f32) {
    for (second, first) in second.iter_mut().zip(first.iter()) {
        *second = between(*first, *second, share);
    }
}

/// Pillow's `ImageEnhance.Brightness`: blends with black.
pub fn brightness(image: &mut RgbImage, factor: f64) {
    map_all(image, |level| between(0, level, factor as f32));
}

/// Pillow's `ImageEnhance.Contrast`: blends with the mean of the grey image.
pub fn contrast(image: &mut RgbImage, factor: f64) {
    let sum: u64 = image.pixels().map(|pixel| u64::from(luma(pixel.0))).sum();
    let pixels = f64::from(image.width()) * f64::from(image.height());
    let mean = (sum as f64 / pixels + 0.5) as u8;
    map_all(image, |level| between(mean, level, factor as f32));
}

/// Pillow's `ImageEnhance.Color`: blends with the grey image.
pub fn color(image: &mut RgbImage, factor: f64) {
    let factor = factor as f32;
    for pixel in image.pixels_mut() {
        let grey = luma(pixel.0);
        pixel.0 = pixel.0.map(|value| between(grey, value, factor));
    }
}

/// Pillow's `ImageEnhance.Sharpness`: blends with the image smoothed by (1 1 1; 1 5 1; 1 1 1) / 13. The border of one pixel
/// does not change.
pub fn sharpness(image: &mut RgbImage, factor: f64) {
    let factor = factor as f32;
    let (stride, height) = (3 * image.width() as usize, image.height() as usize);
    if stride < 9 || height < 3 {
        return;
    }
    let source = image.clone();
    let rows = source.chunks_exact(stride);
    let above_here_below = rows.clone().zip(rows.clone().skip(1)).zip(rows.skip(2));
    let inner = image.chunks_exact_mut(stride).skip(1);
    for (row, ((above, here), below)) in inner.zip(above_here_below) {
        let windows = above.windows(7).zip(here.windows(7)).zip(below.windows(7));
        for (value, ((above, here), below)) in row[3..].iter_mut().zip(windows) {
            let three = |row: &[u8]| u32::from(row[0]) + u32::from(row[3]) + u32::from(row[6]);
            let sum = three(above) + three(here) + three(below) + 4 * u32::from(here[3]);
            // Pillow sums in f32 and rounds. No sum is halfway, as 13 is odd, so integers give the same result.
            let smooth = (2 * sum + 13) / 26;
            *value = between(smooth as u8, here[3], factor);
        }
    }
}

/// `first` + `share` (`second` - `first`) in f32, as in Pillow, truncated and clipped to 0 ..= 255.
fn between(first: u8, second: u8, share: f32) -> u8 {
    let (first, second) = (f32::from(first), f32::from(second));
    (first + share * (second - first)) as u8
}
