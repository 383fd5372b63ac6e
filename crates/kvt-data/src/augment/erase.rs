//! Random erasing (Zhong et al. 2017) as in timm: overwrites rectangles of a normalised image.

use kvt_ops::Key;
use rand::{Rng, RngExt};
use rand_distr::{Distribution, StandardNormal};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::AugmentConfig;

/// Smallest and largest total area of the rectangles of an image, as a fraction of the image.
const AREA: (f64, f64) = (0.02, 1.0 / 3.0);
/// Smallest and largest height / width of a rectangle.
const RATIO: (f64, f64) = (0.3, 1.0 / 0.3);
/// Tries to draw a rectangle that fits, of which the first is one.
const TRIES: usize = 10;

/// What an erased rectangle shows, in normalised values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EraseMode {
    /// Each pixel and channel a number from N(0, 1).
    Pixel,
    /// One number from N(0, 1) for each channel.
    Rand,
    /// Zeros, the mean of the data.
    Const,
}

/// A rectangle and its new values.
#[derive(Debug, Clone, PartialEq)]
pub struct Patch {
    /// Row of its upper edge.
    pub top: usize,
    /// Column of its left edge.
    pub left: usize,
    /// Number of rows.
    pub height: usize,
    /// Number of columns.
    pub width: usize,
    /// Normalised values, `[channels, height, width]`.
    pub values: Vec<f32>,
}

/// A rectangle: top, left, height, width.
type Rectangle = [usize; 4];

impl AugmentConfig {
    /// The patches that erase parts of one image of `size` (height, width) in pixels: with the probability `erase`, 1 to `erase_count`
    /// rectangles, which share an area of 2 to 33 %, with a height / width log-uniform from 0.3 to 3.33. Later patches cover
    /// earlier ones.
    pub fn patches(&self, size: (usize, usize), key: Key) -> Vec<Patch> {
        let mut rng = key.rng();
        let rectangles = self.rectangles(size, &mut || rng.random());
        let patch = |[top, left, height, width]: Rectangle| Patch {
            top,
            left,
            height,
            width,
            values: self.values(height * width, &mut rng),
        };
        rectangles.into_iter().map(patch).collect()
    }

    /// The rectangles, from numbers that are uniform in [0, 1).
    fn rectangles(
        &self,
        (height, width): (usize, usize),
        uniform: &mut impl FnMut() -> f64,
    ) -> Vec<Rectangle> {
        if uniform() >= self.erase {
            return Vec::new();
        }
        let count = 1 + up_to(self.erase_count.saturating_sub(1) as usize, uniform());
        let area = (height * width) as f64 / count as f64;
        let one = |_| {
            (0..TRIES).find_map(|_| {
                let (h, w) = sides(area, uniform(), uniform());
                // Never a full side.
                (h < height && w < width).then(|| {
                    let top = up_to(height - h, uniform());
                    [top, up_to(width - w, uniform()), h, w]
                })
            })
        };
        (0..count).filter_map(one).collect()
    }

    fn values(&self, pixels: usize, rng: &mut impl Rng) -> Vec<f32> {
        let all = self.channels() * pixels;
        match self.erase_mode {
            EraseMode::Pixel => StandardNormal.sample_iter(rng).take(all).collect(),
            EraseMode::Rand => {
                let colour = StandardNormal.sample_iter(rng).take(self.channels());
                let colour: Vec<f32> = colour.collect();
                colour
                    .iter()
                    .flat_map(|value| std::iter::repeat_n(*value, pixels))
                    .collect()
            }
            EraseMode::Const => vec![0.0; all],
        }
    }
}

/// An integer from 0 to `max`, from a number that is uniform in [0, 1).
fn up_to(max: usize, uniform: f64) -> usize {
    ((uniform * (max as f64 + 1.0)) as usize).min(max)
}

/// Height and width of a rectangle. `image` is the number of pixels that the fractions of [`AREA`] refer to. `area` and `ratio` from 0
/// to 1 are positions between the smallest and the largest value in [`AREA`] and [`RATIO`].
fn sides(image: f64, area: f64, ratio: f64) -> (usize, usize) {
    let area = (AREA.0 + (AREA.1 - AREA.0) * area) * image;
    let (low, high) = (RATIO.0.ln(), RATIO.1.ln());
    let ratio = (low + (high - low) * ratio).exp();
    let whole = |side: f64| side.sqrt().round_ties_even() as usize;
    (whole(area * ratio), whole(area / ratio))
}

impl Patch {
    /// Overwrites its rectangle of an image `[channels, height, width]` of `size` (height, width). Pixels outside the image are skipped.
    pub fn apply(&self, image: &mut [f32], size: (usize, usize)) {
        let plane = size.0 * size.1;
        if plane == 0 || self.height * self.width == 0 {
            return;
        }
        let channels = image
            .chunks_exact_mut(plane)
            .zip(self.values.chunks_exact(self.height * self.width));
        for (channel, values) in channels {
            let rows = channel.chunks_exact_mut(size.1).skip(self.top);
            for (row, values) in rows.zip(values.chunks_exact(self.width)) {
                let end = size.1.min(self.left + self.width);
                let row = row.get_mut(self.left..end).unwrap_or_default();
                row.iter_mut()
                    .zip(values)
                    .for_each(|(pixel, value)| *pixel = *value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn erasing(erase: f64, erase_mode: EraseMode, erase_count: u32) -> AugmentConfig {
        AugmentConfig {
            erase,
            erase_mode,
            erase_count,
            ..AugmentConfig::default()
        }
    }

    /// The same numbers between 0 and 1 instead of timm's draws.
    #[test]
    fn rectangles_are_timms() {
        let file: serde_json::Value =
            serde_json::from_str(include_str!("../../tests/golden/erasing.json")).unwrap();
        let cases = file["cases"].as_array().unwrap();
        assert!(cases.len() >= 20);
        for case in cases {
            let number = |value: &serde_json::Value| value.as_u64().unwrap() as usize;
            let list = |value: &serde_json::Value| value.as_array().unwrap().clone();
            let size = list(&case["size"]);
            let draws: Vec<f64> = list(&case["draws"])
                .iter()
                .map(|x| x.as_f64().unwrap())
                .collect();
            let mut draws = draws.into_iter();
            let erasing = erasing(1.0, EraseMode::Const, number(&case["count"]) as u32);
            let found = erasing.rectangles((number(&size[0]), number(&size[1])), &mut || {
                draws.next().unwrap()
            });
            let expected: Vec<Rectangle> = list(&case["rectangles"])
                .iter()
                .map(|sides| std::array::from_fn(|at| number(&sides[at])))
                .collect();
            assert_eq!(found, expected, "{case}");
            assert_eq!(draws.next(), None, "{case}");
        }
    }

    /// A rectangle of a third of 10 x 10 pixels with height / width 3 is 10 high, and is redrawn.
    #[test]
    fn no_rectangle_is_as_high_as_the_image() {
        let three = (3.0_f64 / 0.3).ln() / (1.0_f64 / 0.09).ln();
        assert_eq!(sides(100.0, 1.0, three), (10, 3));
        let mut draws = [0.0, 0.0, 1.0, three, 0.5, 0.5, 0.25, 0.25].into_iter();
        let found =
            erasing(1.0, EraseMode::Const, 1).rectangles((10, 10), &mut || draws.next().unwrap());
        // 17.7 pixels, square: 4 high and wide, at int(7 / 4).
        assert_eq!(found, [[1, 1, 4, 4]]);
    }

    #[test]
    fn the_laws_of_number_area_and_ratio() {
        let erasing = erasing(0.25, EraseMode::Const, 1);
        let (n, size) = (8000, (400, 400));
        let (mut erased, mut area, mut log_ratio) = (0.0, 0.0, 0.0);
        for seed in 0..n {
            let patches = erasing.patches(size, Key::new(seed));
            assert!(patches.len() <= 1);
            for patch in patches {
                erased += 1.0;
                area += (patch.height * patch.width) as f64 / 160_000.0;
                log_ratio += (patch.height as f64 / patch.width as f64).ln();
                assert!(patch.top + patch.height <= 400 && patch.left + patch.width <= 400);
            }
        }
        // Five standard errors: of a count, of a uniform area and of a uniform logarithm. At ratios near 3.3, a
        // rectangle with a third of the area would be higher than the image and is redrawn: 0.5 % of the draws.
        assert!((erased - 2000.0_f64).abs() < 5.0 * 38.7, "{erased}");
        assert!(
            (area / erased - 0.1767).abs() < 0.0101 + 0.002,
            "{}",
            area / erased
        );
        assert!(
            (log_ratio / erased).abs() < 5.0 * 0.695 / erased.sqrt(),
            "{log_ratio}"
        );
    }

    #[test]
    fn up_to_as_many_rectangles_as_told_share_the_area() {
        let erasing = erasing(1.0, EraseMode::Const, 3);
        let mut counts = [0_u32; 4];
        for seed in 0..3000 {
            let patches = erasing.patches((200, 300), Key::new(seed));
            counts[patches.len()] += 1;
            let largest = 60_000.0 / 3.0 / patches.len() as f64;
            for patch in patches {
                // Each side is rounded by up to half a pixel.
                let (h, w) = (patch.height as f64 - 0.5, patch.width as f64 - 0.5);
                assert!(h * w <= largest, "{h} x {w}");
            }
        }
        // A thousand each, standard deviation 26.
        assert_eq!(counts[0], 0);
        assert!(
            counts[1..].iter().all(|count| count.abs_diff(1000) < 130),
            "{counts:?}"
        );
    }

    #[test]
    fn modes_differ_in_what_is_shown() {
        let of = |mode| {
            erasing(1.0, mode, 1)
                .patches((64, 64), Key::new(5))
                .remove(0)
        };
        let [pixel, rand, zero] = [EraseMode::Pixel, EraseMode::Rand, EraseMode::Const].map(of);
        assert!(zero.values.iter().all(|value| *value == 0.0));
        let channel = rand.height * rand.width;
        for values in rand.values.chunks_exact(channel) {
            assert!(values.iter().all(|value| *value == values[0]));
        }
        assert_ne!(rand.values[0], rand.values[channel]);
        let n = pixel.values.len() as f32;
        assert_eq!(pixel.values.len(), 3 * channel);
        let mean = pixel.values.iter().sum::<f32>() / n;
        let variance = pixel.values.iter().map(|x| x * x).sum::<f32>() / n - mean * mean;
        assert!(mean.abs() < 5.0 / n.sqrt() && (variance - 1.0).abs() < 5.0 * (2.0 / n).sqrt());
    }

    #[test]
    fn a_patch_overwrites_its_rectangle_and_nothing_else() {
        let patch = Patch {
            top: 1,
            left: 2,
            height: 2,
            width: 1,
            values: vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
        };
        let mut image = [0.0; 36];
        patch.apply(&mut image, (3, 4));
        let mut expected = [0.0; 36];
        for (channel, values) in
            expected
                .chunks_exact_mut(12)
                .zip([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
        {
            channel[6] = values[0];
            channel[10] = values[1];
        }
        assert_eq!(image, expected);
        // Outside the image there is nothing to overwrite.
        let mut small = [0.0; 12];
        patch.apply(&mut small, (2, 2));
        assert_eq!(small, [0.0; 12]);
    }
}
