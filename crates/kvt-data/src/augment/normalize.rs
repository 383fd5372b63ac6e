//! From 8-bit pixels to normalised numbers, channel by channel.

use image::RgbImage;

/// The normalised value of each of the 256 levels for each channel: one division per level, not per pixel.
#[derive(Debug, Clone)]
pub(super) struct Levels(Box<[[f32; 256]; 3]>);

impl Levels {
    /// `(level / 255 - mean) / std`.
    pub(super) fn new(mean: [f64; 3], std: [f64; 3]) -> Self {
        let (mean, std) = (mean.map(|x| x as f32), std.map(|x| x as f32));
        let mut levels = Box::new([[0.0; 256]; 3]);
        for (channel, values) in levels.iter_mut().enumerate() {
            for (level, value) in (0..=255u8).zip(values) {
                *value = (f32::from(level) / 255.0 - mean[channel]) / std[channel];
            }
        }
        Self(levels)
    }

    /// Writes an image as `[3, height, width]`, with each row reversed if it must be flipped. `out` holds the numbers of
    /// one image.
    pub(super) fn write(&self, image: &RgbImage, flip: bool, out: &mut [f32]) {
        let width = image.width().max(1) as usize;
        let plane = width * image.height() as usize;
        let (red, rest) = out.split_at_mut(plane);
        let (green, blue) = rest.split_at_mut(plane);
        let rows = red
            .chunks_exact_mut(width)
            .zip(green.chunks_exact_mut(width))
            .zip(blue.chunks_exact_mut(width))
            .zip(image.as_raw().chunks_exact(3 * width));
        for (((red, green), blue), row) in rows {
            let (pixels, _) = row.as_chunks();
            let out = red.iter_mut().zip(green).zip(blue);
            if flip {
                self.row(out.zip(pixels.iter().rev()));
            } else {
                self.row(out.zip(pixels));
            }
        }
    }

    /// Writes one row: pairs of a position for each channel and the pixel.
    fn row<'a>(
        &self,
        row: impl Iterator<Item = (((&'a mut f32, &'a mut f32), &'a mut f32), &'a [u8; 3])>,
    ) {
        let [reds, greens, blues] = &*self.0;
        for (((red, green), blue), [r, g, b]) in row {
            *red = reds[usize::from(*r)];
            *green = greens[usize::from(*g)];
            *blue = blues[usize::from(*b)];
        }
    }
}

#[cfg(test)]
mod tests {
    use image::{Rgb, imageops};

    use super::*;

    #[test]
    fn channels_are_planes_and_rows_may_be_flipped() {
        let image = RgbImage::from_fn(5, 2, |x, y| Rgb([x as u8, 100 + y as u8, 255 - x as u8]));
        let levels = Levels::new([0.0, 0.5, 0.25], [1.0, 0.5, 0.125]);
        let write = |image: &RgbImage, flip| {
            let mut out = vec![f32::NAN; 30];
            levels.write(image, flip, &mut out);
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
