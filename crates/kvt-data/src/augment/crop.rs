//! The position of crops: the geometry of torchvision's crops, in whole pixels.

use rand::{Rng, RngExt};

/// A rectangle of an image, in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crop {
    /// Column of the left edge.
    pub left: u32,
    /// Row of the upper edge.
    pub top: u32,
    /// Number of columns.
    pub width: u32,
    /// Number of rows.
    pub height: u32,
}

impl Crop {
    /// All of an image of this width and height.
    pub(crate) fn whole((width, height): (u32, u32)) -> Self {
        Self {
            left: 0,
            top: 0,
            width,
            height,
        }
    }
}

/// torchvision's `RandomResizedCrop.get_params` for a `width` x `height` image: an area uniform in `scale` (fraction of
/// the image), an aspect ratio log-uniform in `ratio`, ten attempts; then the largest central rectangle with an allowed
/// ratio.
pub fn random_resized_crop(
    (width, height): (u32, u32),
    scale: (f64, f64),
    ratio: (f64, f64),
    rng: &mut impl Rng,
) -> Crop {
    let (w, h) = (f64::from(width), f64::from(height));
    let (log_low, log_high) = (ratio.0.ln(), ratio.1.ln());
    for _ in 0..10 {
        let area = w * h * uniform(scale.0, scale.1, rng);
        let aspect = uniform(log_low, log_high, rng).exp();
        let crop_width = (area * aspect).sqrt().round_ties_even() as u32;
        let crop_height = (area / aspect).sqrt().round_ties_even() as u32;
        if (1..=width).contains(&crop_width) && (1..=height).contains(&crop_height) {
            return Crop {
                left: rng.random_range(0..=width - crop_width),
                top: rng.random_range(0..=height - crop_height),
                width: crop_width,
                height: crop_height,
            };
        }
    }
    let whole = |side: f64, most: u32| (side.round_ties_even() as u32).clamp(1, most);
    let (crop_width, crop_height) = if w / h < ratio.0 {
        (width, whole(w / ratio.0, height))
    } else if w / h > ratio.1 {
        (whole(h * ratio.1, width), height)
    } else {
        (width, height)
    };
    Crop {
        left: (width - crop_width) / 2,
        top: (height - crop_height) / 2,
        width: crop_width,
        height: crop_height,
    }
}

/// torchvision's `CenterCrop` of `size` = (width, height), which must fit in the image: halves are rounded to even.
pub fn center_crop((width, height): (u32, u32), size: (u32, u32)) -> Crop {
    let margin = |outer: u32, inner: u32| {
        (f64::from(outer.saturating_sub(inner)) / 2.0).round_ties_even() as u32
    };
    Crop {
        left: margin(width, size.0),
        top: margin(height, size.1),
        width: size.0.min(width),
        height: size.1.min(height),
    }
}

fn uniform(low: f64, high: f64, rng: &mut impl Rng) -> f64 {
    low + (high - low) * rng.random::<f64>()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use kvt_ops::Key;

    const SCALE: (f64, f64) = (0.08, 1.0);
    const RATIO: (f64, f64) = (0.75, 4.0 / 3.0);

    proptest! {
        #[test]
        fn crops_lie_inside(width in 1_u32..600, height in 1_u32..600, seed: u64) {
            let crop = random_resized_crop((width, height), SCALE, RATIO, &mut Key::new(seed).rng());
            prop_assert!(crop.width >= 1 && crop.left + crop.width <= width);
            prop_assert!(crop.height >= 1 && crop.top + crop.height <= height);
        }

        #[test]
        fn area_and_ratio_are_in_range(seed: u64) {
            let crop = random_resized_crop((500, 400), SCALE, RATIO, &mut Key::new(seed).rng());
            let (w, h) = (f64::from(crop.width), f64::from(crop.height));
            // Rounding to pixels changes a side by up to a half.
            prop_assert!((w + 0.5) * (h + 0.5) >= SCALE.0 * 200_000.0);
            prop_assert!((w + 0.5) / (h - 0.5) >= RATIO.0 && (w - 0.5) / (h + 0.5) <= RATIO.1);
        }
    }

    #[test]
    fn area_is_uniform_and_ratio_log_uniform() {
        // Small areas never need a second attempt, so rejection does not distort their distribution.
        let mut rng = Key::new(1).rng();
        let (mut area, mut log_ratio, n) = (0.0, 0.0, 4000);
        for _ in 0..n {
            let crop = random_resized_crop((1000, 1000), (0.1, 0.5), RATIO, &mut rng);
            let (w, h) = (f64::from(crop.width), f64::from(crop.height));
            area += w * h / 1e6 / f64::from(n);
            log_ratio += (w / h).ln() / f64::from(n);
        }
        // Four standard errors of the means: 0.4 / sqrt(12 n) and 2 ln(4/3) / sqrt(12 n).
        assert!((area - 0.3).abs() < 0.0074, "{area}");
        assert!(log_ratio.abs() < 0.0106, "{log_ratio}");
    }

    #[test]
    fn extreme_images_fall_back_to_the_centre() {
        // 1000 x 10: a whole-area crop cannot fit, so the fallback: width = round(10 * 4/3) = 13, left = 987 / 2.
        let crop = random_resized_crop((1000, 10), (1.0, 1.0), RATIO, &mut Key::new(0).rng());
        let expected = Crop {
            left: 493,
            top: 0,
            width: 13,
            height: 10,
        };
        assert_eq!(crop, expected);
        let crop = random_resized_crop((10, 1000), (1.0, 1.0), RATIO, &mut Key::new(0).rng());
        let expected = Crop {
            left: 0,
            top: 493,
            width: 10,
            height: 13,
        };
        assert_eq!(crop, expected);
    }

    #[test]
    fn center_crop_rounds_half_to_even() {
        let place = |outer, inner| center_crop((outer, outer), (inner, inner)).left;
        // (256 - 224) / 2 = 16; 1 / 2 = 0.5 -> 0; 3 / 2 = 1.5 -> 2; 5 / 2 = 2.5 -> 2.
        assert_eq!(
            [place(256, 224), place(5, 4), place(7, 4), place(9, 4)],
            [16, 0, 2, 2]
        );
    }
}
