//! A class for each pixel of an image.

use image::{Rgb, RgbImage};

/// The label of a pixel without a class: it is neither trained on nor evaluated.
pub const IGNORED: u8 = 255;

/// The class of each pixel of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelMap {
    /// Labels, `[height, width]`: indices into the classes, or [`IGNORED`].
    pub labels: Vec<u8>,
    /// Height and width in pixels.
    pub size: (usize, usize),
}

impl LabelMap {
    /// The classes as colours over an image of the same size, half of each; ignored pixels show the image alone.
    pub fn painted(&self, image: &RgbImage) -> RgbImage {
        let mut painted = image.clone();
        for (pixel, &label) in painted.pixels_mut().zip(&self.labels) {
            if label != IGNORED {
                for (level, color) in pixel.0.iter_mut().zip(class_color(label).0) {
                    *level = level.midpoint(color);
                }
            }
        }
        painted
    }
}

/// The colour of a class, as PASCAL VOC has it: the bits of the label, three at a time, are the highest bits of red, green and
/// blue. Class 0 is black.
pub fn class_color(label: u8) -> Rgb<u8> {
    let label = u16::from(label);
    let bits = |channel: u8| {
        let bit = |place: u8| (label >> (3 * place + channel) & 1) as u8;
        bit(0) << 7 | bit(1) << 6 | bit(2) << 5
    };
    Rgb([bits(0), bits(1), bits(2)])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first colours of the palette in VOC's files, and the last before that of the ignored pixels.
    #[test]
    fn colours_are_those_of_voc() {
        let expected = [
            (0, [0, 0, 0]),
            (1, [128, 0, 0]),
            (2, [0, 128, 0]),
            (3, [128, 128, 0]),
            (7, [128, 128, 128]),
            (8, [64, 0, 0]),
            (20, [0, 64, 128]),
            (64, [32, 0, 0]),
            (255, [224, 224, 192]),
        ];
        for (label, color) in expected {
            assert_eq!(class_color(label), Rgb(color), "{label}");
        }
    }

    #[test]
    fn ignored_pixels_show_the_image() {
        let map = LabelMap {
            labels: vec![1, IGNORED],
            size: (1, 2),
        };
        let painted = map.painted(&RgbImage::from_pixel(2, 1, Rgb([100, 50, 7])));
        assert_eq!(painted.into_raw(), [114, 25, 3, 100, 50, 7]);
    }
}
