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

    /// Writes an image as `[channels, height, width]`, with each row reversed if it must be flipped. `out` holds the numbers of
    /// one image. Grey is in all colours of the image; one without alpha is opaque.
    pub(super) fn write(&self, image: &Raster, flip: bool, out: &mut [f32]) {
        let width = image.rgb.width().max(1) as usize;
        let plane = width * image.rgb.height() as usize;
        let [red, green, blue, rest @ ..] = &*self.0 else {
            let grey = self.0.iter();
            return grey.for_each(|levels| one(levels, (image.rgb.as_raw(), 3), width, flip, out));
        };
        let levels = [red, green, blue];
        let (colours, alphas) = out.split_at_mut(out.len().min(3 * plane));
        match (rest.first(), &image.alpha) {
            (Some(levels), Some(alpha)) => one(levels, (alpha.as_raw(), 1), width, flip, alphas),
            (Some(levels), None) => alphas.fill(levels[255]),
            (None, _) => {}
        }
        let (red, rest) = colours.split_at_mut(plane);
        let (green, blue) = rest.split_at_mut(plane);
        let rows = red
            .chunks_exact_mut(width)
            .zip(green.chunks_exact_mut(width))
            .zip(blue.chunks_exact_mut(width))
            .zip(image.rgb.as_raw().chunks_exact(3 * width));
        for (((red, green), blue), row) in rows {
            let (pixels, _) = row.as_chunks();
            let out = red.iter_mut().zip(green).zip(blue);
            if flip {
                self::row(levels, out.zip(pixels.iter().rev()));
            } else {
                self::row(levels, out.zip(pixels));
            }
        }
    }
}

/// Writes the first of each `step` bytes.
fn one(
    levels: &[f32; 256],
    (bytes, step): (&[u8], usize),
    width: usize,
    flip: bool,
    out: &mut [f32],
) {
    let rows = bytes.chunks_exact(step * width);
    for (out, row) in out.chunks_exact_mut(width).zip(rows) {
        let values = row
            .iter()
            .step_by(step)
            .map(|level| levels[usize::from(*level)]);
        out.iter_mut()
            .zip(values)
            .for_each(|(out, value)| *out = value);
        if flip {
            out.reverse();
        }
    }
}

/// Writes one row: pairs of a position for each channel and the pixel.
fn row<'a>(
    [reds, greens, blues]: [&[f32; 256]; 3],
    row: impl Iterator<Item = (((&'a mut f32, &'a mut f32), &'a mut f32), &'a [u8; 3])>,
) {
    for (((red, green), blue), [r, g, b]) in row {
        *red = reds[usize::from(*r)];
        *green = greens[usize::from(*g)];
        *blue = blues[usize::from(*b)];
    }
}

#[cfg(test)]
mod tests {
    use image::{Rgb, RgbImage, imageops};

    use super::*;

    #[test]
    fn channels_are_planes_and_rows_may_be_flipped() {
        let image = RgbImage::from_fn(5, 2, |x, y| Rgb([x as u8, 100 + y as u8, 255 - x as u8]));
        let levels = Levels::new(&[0.0, 0.5, 0.25], &[1.0, 0.5, 0.125]);
        let write = |image: &RgbImage, flip| {
            let mut out = vec![f32::NAN; 30];
            levels.write(&image.clone().into(), flip, &mut out);
            out
        };
        let out = write(&image, false);
        assert_eq!(out[1], 1.0 / 255.0);
        assert_eq!(out[10 + 5], (101.0 / 255.0 - 0.5) / 0.5);
        assert_eq!(out[20 + 4], (251.0 / 255.0 - 0.25) / 0.125);
        assert_eq!(
            write(&image, true),
            write(&imageops::flip_horizontal(&image), false)
        );
        assert_ne!(write(&image, true), out);
    }
}
