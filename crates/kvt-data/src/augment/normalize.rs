//! From 8-bit pixels to normalised numbers, channel by channel.

use crate::raster::Raster;

/// The normalised value of each of the 256 levels for each channel: one division per level, not per pixel.
#[derive(Debug, Clone)]
pub(super) struct Levels(Box<[[f32; 256]]>);

impl Levels {
    /// `(level / 255 - mean) / std`, for one, three or four channels.
    pub(super) fn new(mean: &[f64], std: &[f64]) -> Self {
        let channels = mean.iter().zip(std).map(|(mean, std)| {
            let (mean, std) = (*mean as f32, *std as f32);
            std::array::from_fn(|level| (level as f32 / 255.0 - mean) / std)
        });
        Self(channels.collect())
    }

    /// Number of channels.
    pub(super) fn channels(&self) -> usize {
        self.0.len()
    }

    /// Writes an image as `[channels, height, width]`. `out` holds the numbers of one image. Grey is in all colours of the image; one without
    /// alpha is opaque.
    pub(super) fn write(&self, image: &Raster, out: &mut [f32]) {
        let (pixels, _) = image.rgb.as_raw().as_chunks::<3>();
        let planes = out.chunks_exact_mut(pixels.len().max(1));
        for (channel, (levels, out)) in self.0.iter().zip(planes).enumerate() {
            match (channel, &image.alpha) {
                (3, Some(alpha)) => {
                    let (pixels, _) = alpha.as_raw().as_chunks::<1>();
                    plane(levels, pixels, 0, out);
                }
                (3, None) => out.fill(levels[255]),
                _ => plane(levels, pixels, channel, out),
            }
        }
    }
}

/// Writes one channel of pixels.
fn plane<const N: usize>(levels: &[f32; 256], pixels: &[[u8; N]], channel: usize, out: &mut [f32]) {
    for (out, pixel) in out.iter_mut().zip(pixels) {
        *out = levels[usize::from(pixel[channel])];
    }
}

#[cfg(test)]
mod tests {
    use image::{Rgb, RgbImage};

    use super::*;

    #[test]
    fn channels_are_planes() {
        let image = RgbImage::from_fn(5, 2, |x, y| Rgb([x as u8, 100 + y as u8, 255 - x as u8]));
        let levels = Levels::new(&[0.0, 0.5, 0.25], &[1.0, 0.5, 0.125]);
        let mut out = vec![f32::NAN; 30];
        levels.write(&image.into(), &mut out);
        assert_eq!(out[1], 1.0 / 255.0);
        assert_eq!(out[10 + 5], (101.0 / 255.0 - 0.5) / 0.5);
        assert_eq!(out[20 + 4], (251.0 / 255.0 - 0.25) / 0.125);
    }
}
