//! Fitting images for evaluation to the size of the model: timm's `crop_mode` and `crop_pct`.

use image::{ImageBuffer, Luma, Pixel, Rgb, RgbImage, imageops};

use super::{AugmentError, Transform};
use crate::augment::resize::resize_part;
use crate::augment::{CropMode, center_crop};
use crate::raster::Raster;

impl Transform {
    /// The (width, height) that an image of (width, height) is resized to.
    pub(super) fn fitted(&self, image: (u32, u32)) -> (u32, u32) {
        let (size, crop_pct) = ((self.width, self.height), self.config.crop_pct);
        match self.config.crop_mode {
            CropMode::Center => cover(image, size, crop_pct),
            CropMode::Squash => enlarged(size, crop_pct),
            CropMode::Border => contain(image, size, crop_pct),
        }
    }

    /// Resizes the image and takes its centre.
    pub(super) fn fit(&self, image: RgbImage) -> Result<RgbImage, AugmentError> {
        let resized = self.fitted(image.dimensions());
        let crop = center_crop(resized, (self.width, self.height));
        resize_part(image, resized, crop, self.filter(None))
    }

    /// The image with a border if it is smaller than the result.
    pub(super) fn pad(&self, image: Raster) -> Raster {
        let (rgb, alpha) = match self.config.crop_mode {
            CropMode::Center | CropMode::Squash => ([0; 3], 0),
            CropMode::Border => self.config.mean_color(),
        };
        let size = (self.width, self.height);
        Raster {
            rgb: pad(image.rgb, size, Rgb(rgb)),
            alpha: image.alpha.map(|image| pad(image, size, Luma([alpha]))),
        }
    }
}

/// `size / crop_pct` in whole pixels.
fn enlarged(size: (u32, u32), crop_pct: f64) -> (u32, u32) {
    let whole = |side: u32| ((f64::from(side) / crop_pct) as u32).max(1);
    (whole(size.0), whole(size.1))
}

/// The (width, height) to resize to, so that the image covers `size / crop_pct` and one side fits exactly. For a square this is
/// torchvision's `Resize`: the longer side is truncated to whole pixels. For another rectangle it is timm's `ResizeKeepRatio`, which
/// rounds.
pub(super) fn cover((width, height): (u32, u32), size: (u32, u32), crop_pct: f64) -> (u32, u32) {
    let target = enlarged(size, crop_pct);
    if target.0 != target.1 {
        return keep_ratio((width, height), target, f64::min);
    }
    let side = target.0;
    let fitted = |long: u32, short: u32| {
        u32::try_from(u64::from(side) * u64::from(long) / u64::from(short)).unwrap_or(u32::MAX)
    };
    if width <= height {
        (side, fitted(height, width))
    } else {
        (fitted(width, height), side)
    }
}

/// The (width, height) to resize to, so that the longer side fits `size / crop_pct`: timm's `ResizeKeepRatio` with `longest` 1.
pub(super) fn contain(image: (u32, u32), size: (u32, u32), crop_pct: f64) -> (u32, u32) {
    keep_ratio(image, enlarged(size, crop_pct), f64::max)
}

/// timm's `ResizeKeepRatio`: both sides shrink by that factor of the two to `target` which `chosen` takes, and are rounded, halves to even.
fn keep_ratio(
    (width, height): (u32, u32),
    target: (u32, u32),
    chosen: fn(f64, f64) -> f64,
) -> (u32, u32) {
    let ratio = |side: u32, target: u32| f64::from(side) / f64::from(target);
    let shrink = chosen(ratio(width, target.0), ratio(height, target.1));
    let side = |side: u32| ((f64::from(side) / shrink).round_ties_even() as u32).max(1);
    (side(width), side(height))
}

/// The image centred in a border of one colour, enlarged to `size`; an odd border pixel is placed right or below.
fn pad<P: Pixel<Subpixel = u8>>(
    image: ImageBuffer<P, Vec<u8>>,
    size: (u32, u32),
    border: P,
) -> ImageBuffer<P, Vec<u8>> {
    if image.dimensions() == size {
        return image;
    }
    let margin = |outer: u32, inner: u32| i64::from(outer.saturating_sub(inner) / 2);
    let (left, top) = (
        margin(size.0, image.width()),
        margin(size.1, image.height()),
    );
    let mut padded = ImageBuffer::from_pixel(size.0, size.1, border);
    imageops::replace(&mut padded, &image, left, top);
    padded
}
