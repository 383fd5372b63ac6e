//! A decoded image and its alpha, as Pillow's RGBA.

use image::{DynamicImage, GrayImage, Luma, Rgb, RgbImage};

/// A decoded image: its colours, and its alpha where that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Raster {
    /// Red, green and blue.
    pub rgb: RgbImage,
    /// Alpha, of the same size. `None` where the file has none, so that the whole image is opaque, or where nothing uses it.
    pub alpha: Option<GrayImage>,
}

impl From<RgbImage> for Raster {
    fn from(rgb: RgbImage) -> Self {
        Self { rgb, alpha: None }
    }
}

impl Raster {
    /// What `place` makes of the colours, and of the alpha in three equal channels. If it `mixes` pixels, the colours are multiplied by
    /// alpha before and divided by it afterwards, as where Pillow resizes, so that colours that are not seen do not show.
    pub(crate) fn placed<E>(
        self,
        mixes: impl FnOnce(&RgbImage) -> bool,
        place: impl Fn(RgbImage) -> Result<RgbImage, E>,
    ) -> Result<Self, E> {
        let Self { mut rgb, alpha } = self;
        let Some(alpha) = alpha else {
            return Ok(place(rgb)?.into());
        };
        let mixes = mixes(&rgb);
        if mixes {
            each(&mut rgb, &alpha, times);
        }
        let alpha = place(DynamicImage::ImageLuma8(alpha).into_rgb8())?;
        let alpha = GrayImage::from_fn(alpha.width(), alpha.height(), |x, y| {
            Luma([alpha.get_pixel(x, y).0[0]])
        });
        let mut rgb = place(rgb)?;
        if mixes {
            each(&mut rgb, &alpha, over);
        }
        let alpha = Some(alpha);
        Ok(Self { rgb, alpha })
    }
}

fn each(rgb: &mut RgbImage, alpha: &GrayImage, of: fn(u8, u8) -> u8) {
    for (Rgb(levels), alpha) in rgb.pixels_mut().zip(alpha.pixels()) {
        *levels = levels.map(|level| of(level, alpha.0[0]));
    }
}

/// Pillow's `MULDIV255`: the rounded product, both in units of 255.
fn times(level: u8, alpha: u8) -> u8 {
    let product = u32::from(level) * u32::from(alpha) + 128;
    (((product >> 8) + product) >> 8) as u8
}

/// Pillow's inverse, truncated; an invisible pixel stays as it is.
fn over(level: u8, alpha: u8) -> u8 {
    match alpha {
        0 | 255 => level,
        alpha => (255 * u32::from(level) / u32::from(alpha)).min(255) as u8,
    }
}

#[cfg(test)]
mod tests;
