//! Photometric distortion, as mmsegmentation does it in 8 bits and OpenCV's 8-bit HSV: hue in steps of two degrees.

use image::RgbImage;
use kvt_ops::Key;
use rand::RngExt;

use crate::augment::ops::{in_sector, map_all};

/// The drawn changes of an image, in the order of their fields; contrast comes either before saturation or last.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Photometric {
    /// Added to each level.
    pub(super) brightness: Option<f32>,
    /// A factor of each level.
    pub(super) contrast: Option<f32>,
    /// Whether the contrast is changed last.
    pub(super) contrast_last: bool,
    /// A factor of the saturation.
    pub(super) saturation: Option<f32>,
    /// Added to the hue, of 180 steps.
    pub(super) hue: Option<i32>,
}

impl Photometric {
    /// Each change with probability one half.
    pub(super) fn draw(key: Key) -> Self {
        let happens = |name: &str| {
            let mut rng = key.named(name).rng();
            rng.random::<bool>().then_some(rng)
        };
        let factor = |name| happens(name).map(|mut rng| rng.random_range(0.5..=1.5));
        Self {
            brightness: happens("brightness").map(|mut rng| rng.random_range(-32.0..=32.0)),
            contrast: factor("contrast"),
            contrast_last: happens("contrast last").is_some(),
            saturation: factor("saturation"),
            hue: happens("hue").map(|mut rng| rng.random_range(-18..18)),
        }
    }

    /// Changes an image.
    pub(super) fn apply(self, image: &mut RgbImage) {
        if let Some(delta) = self.brightness {
            levels(image, 1.0, delta);
        }
        if let Some(factor) = self.contrast.filter(|_| !self.contrast_last) {
            levels(image, factor, 0.0);
        }
        if let Some(factor) = self.saturation {
            in_hsv(image, |[hue, saturation, value]| {
                [hue, changed(saturation, factor, 0.0), value]
            });
        }
        if let Some(steps) = self.hue {
            in_hsv(image, |[hue, saturation, value]| {
                let hue = (i32::from(hue) + steps).rem_euclid(180);
                [hue as u8, saturation, value]
            });
        }
        if let Some(factor) = self.contrast.filter(|_| self.contrast_last) {
            levels(image, factor, 0.0);
        }
    }
}

/// A level times a factor, plus a number, clipped to 8 bits and truncated.
fn changed(level: u8, factor: f32, delta: f32) -> u8 {
    // The cast does both.
    (f32::from(level) * factor + delta) as u8
}

fn levels(image: &mut RgbImage, factor: f32, delta: f32) {
    map_all(image, |level| changed(level, factor, delta));
}

fn in_hsv(image: &mut RgbImage, change: impl Fn([u8; 3]) -> [u8; 3]) {
    for pixel in image.pixels_mut() {
        pixel.0 = to_rgb(change(to_hsv(pixel.0)));
    }
}

/// Hue of 180 steps, saturation and value of 255, each rounded from a quotient of 12 bits.
fn to_hsv(rgb: [u8; 3]) -> [u8; 3] {
    let [red, green, blue] = rgb.map(i32::from);
    let value = red.max(green).max(blue);
    let range = value - red.min(green).min(blue);
    // The divisor of a product in 12 bits; nothing is divided by 0.
    let over = |times: f64, by: i32| match by {
        0 => 0,
        by => (times * 4096.0 / f64::from(by)).round_ties_even() as i32,
    };
    let rounded = |product: i32| (product + 2048) >> 12;
    let saturation = rounded(range * over(255.0, value));
    let sector = if value == red {
        green - blue
    } else if value == green {
        blue - red + 2 * range
    } else {
        red - green + 4 * range
    };
    let hue = rounded(sector * over(30.0, range));
    let hue = if hue < 0 { hue + 180 } else { hue };
    [hue as u8, saturation as u8, value as u8]
}

fn to_rgb([hue, saturation, value]: [u8; 3]) -> [u8; 3] {
    // Products and truncation as in OpenCV, where it converts several pixels at once: 0.005 % of all colours differ, by one level.
    let [saturation, value] = [saturation, value].map(|level| f32::from(level) * (1.0 / 255.0));
    let hue = f32::from(hue) * (6.0 / 180.0);
    let sector = hue.floor();
    let part = hue - sector;
    let low = value * (1.0 - saturation);
    let falling = value * (1.0 - saturation * part);
    let rising = value * (1.0 - saturation * (1.0 - part));
    let rgb = in_sector(sector as u8, value, low, falling, rising);
    rgb.map(|level| (level * 255.0) as u8)
}

#[cfg(test)]
mod tests {
    use image::Rgb;

    use super::*;

    /// Worked by hand; of a grey pixel hue and saturation are 0.
    #[test]
    fn hsv_of_some_colours() {
        let colours = [
            ([255, 0, 0], [0, 255, 255]),
            ([0, 255, 0], [60, 255, 255]),
            ([0, 0, 255], [120, 255, 255]),
            ([255, 255, 0], [30, 255, 255]),
            ([255, 0, 255], [150, 255, 255]),
            ([90, 90, 90], [0, 0, 90]),
            ([0, 0, 0], [0, 0, 0]),
            // 255 * 50 / 200 = 63.75; 30 * -50 / 50 + 180.
            ([200, 150, 200], [150, 64, 200]),
        ];
        for (rgb, hsv) in colours {
            assert_eq!(to_hsv(rgb), hsv, "{rgb:?}");
            let back = to_rgb(hsv);
            let near = back.iter().zip(rgb).all(|(a, b)| a.abs_diff(b) <= 1);
            assert!(near, "{rgb:?} {back:?}");
        }
    }

    #[test]
    fn levels_are_clipped_and_truncated() {
        let shown = |photometric: Photometric| {
            let mut image = RgbImage::from_pixel(1, 1, Rgb([10, 101, 200]));
            photometric.apply(&mut image);
            image.get_pixel(0, 0).0
        };
        let brightness = Photometric {
            brightness: Some(-20.5),
            ..Photometric::default()
        };
        assert_eq!(shown(brightness), [0, 80, 179]);
        let contrast = Photometric {
            contrast: Some(1.5),
            ..Photometric::default()
        };
        assert_eq!(shown(contrast), [15, 151, 255]);
        assert_eq!(shown(Photometric::default()), [10, 101, 200]);
    }

    /// How often each change happens, and how far it goes.
    #[test]
    fn changes_are_drawn_as_often_as_told() {
        let n = 2000_u64;
        let drawn: Vec<Photometric> = (0..n).map(|key| Photometric::draw(Key::new(key))).collect();
        let near_half = |count: usize| {
            // Five standard deviations.
            assert!(count.abs_diff(1000) < 112, "{count}");
        };
        near_half(drawn.iter().filter(|one| one.brightness.is_some()).count());
        near_half(drawn.iter().filter(|one| one.contrast.is_some()).count());
        near_half(drawn.iter().filter(|one| one.contrast_last).count());
        near_half(drawn.iter().filter(|one| one.saturation.is_some()).count());
        let hues: Vec<i32> = drawn.iter().filter_map(|one| one.hue).collect();
        near_half(hues.len());
        assert_eq!(
            (hues.iter().min(), hues.iter().max()),
            (Some(&-18), Some(&17))
        );
        let both = drawn
            .iter()
            .filter(|one| one.contrast.is_some() && one.saturation.is_some());
        let both = both.count();
        assert!(both.abs_diff(500) < 97, "{both}");
    }

    /// Each range is drawn from end to end, and no further: mmsegmentation's defaults.
    #[test]
    fn changes_are_as_large_as_told() {
        let all: Vec<Photometric> = (0..2000)
            .map(|key| Photometric::draw(Key::new(key)))
            .collect();
        let assert_range = |of: fn(&Photometric) -> Option<f32>, [low, high]: [f32; 2]| {
            let drawn = all.iter().filter_map(of);
            let least = drawn.clone().fold(f32::INFINITY, f32::min);
            let most = drawn.fold(f32::NEG_INFINITY, f32::max);
            let near = 0.02 * (high - low);
            assert!((low..low + near).contains(&least), "{least}");
            assert!((high - near..=high).contains(&most), "{most}");
        };
        assert_range(|one| one.brightness, [-32.0, 32.0]);
        assert_range(|one| one.contrast, [0.5, 1.5]);
        assert_range(|one| one.saturation, [0.5, 1.5]);
    }
}
