//! The views of DINO (Caron et al. 2021): large crops for teacher and student, small ones for the student, each with its
//! own colour jitter, greyscale, blur and solarisation (`DataAugmentationDINO` of `main_dino.py`).

use super::{AugmentConfig, AugmentError, ColorJitter, Preset, Step, Transform};

/// Sizes and areas of the crops.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MultiCrop {
    /// Height and width of the two global views, in pixels.
    pub global_size: (usize, usize),
    /// Smallest and largest area of a global view, as a fraction of the image.
    pub global_scale: (f64, f64),
    /// Height and width of the local views, in pixels.
    pub local_size: (usize, usize),
    /// Smallest and largest area of a local view, as a fraction of the image.
    pub local_scale: (f64, f64),
    /// Number of local views.
    pub locals: usize,
    /// Probability of colour jitter in each view.
    pub color_jitter: f64,
    /// Probability that a view is converted to greyscale.
    pub grayscale: f64,
    /// Probability of a blur in the first global view, the second one, and the local views.
    pub blur: [f64; 3],
    /// Smallest and largest standard deviation of the blur, in pixels.
    pub blur_radius: (f64, f64),
    /// Probability that the second global view is solarised.
    pub solarize: f64,
}

impl MultiCrop {
    /// The transforms of all views: first the two global ones, then the local ones. `config` gives aspect ratios, flips,
    /// interpolation and normalisation; its automatic augmentation, jitter and erasing are not used.
    ///
    /// # Errors
    /// [`AugmentError::Setting`] if a value is invalid.
    pub fn views(&self, config: &AugmentConfig) -> Result<Vec<Transform>, AugmentError> {
        let view = |size, scale: (f64, f64), steps| {
            let config = AugmentConfig {
                preset: Preset::Imagenet,
                scale: scale.into(),
                auto: String::new(),
                color_jitter: 0.0,
                erase: 0.0,
                ..config.clone()
            };
            Ok(Transform::train(&config, size)?.with_steps(steps))
        };
        let [first, second, local] = self.blur;
        let global = |blur, solarize| {
            let steps = self.steps(blur, solarize);
            view(self.global_size, self.global_scale, steps)
        };
        let local = |_| view(self.local_size, self.local_scale, self.steps(local, 0.0));
        [global(first, 0.0), global(second, self.solarize)]
            .into_iter()
            .chain((0..self.locals).map(local))
            .collect()
    }

    /// The steps of a view: jitter and greyscale, then blur and solarisation with these probabilities.
    fn steps(&self, blur: f64, solarize: f64) -> Vec<Step> {
        let jitter = ColorJitter {
            brightness: 0.4,
            contrast: 0.4,
            saturation: 0.2,
            hue: 0.1,
        };
        vec![
            Step::Jitter {
                jitter,
                prob: self.color_jitter,
            },
            Step::Grayscale {
                prob: self.grayscale,
            },
            Step::GaussianBlur {
                prob: blur,
                radius: self.blur_radius,
            },
            Step::Solarize {
                prob: solarize,
                threshold: 128,
            },
        ]
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use image::{Rgb, RgbImage};
    use kvt_ops::Key;

    use super::*;

    /// DINO's values for ImageNet.
    const CROPS: MultiCrop = MultiCrop {
        global_size: (224, 224),
        global_scale: (0.4, 1.0),
        local_size: (96, 96),
        local_scale: (0.05, 0.4),
        locals: 8,
        color_jitter: 0.8,
        grayscale: 0.2,
        blur: [1.0, 0.1, 0.5],
        blur_radius: (0.1, 2.0),
        solarize: 0.2,
    };

    #[test]
    fn there_are_two_large_views_and_many_small_ones() {
        let crop = MultiCrop {
            local_size: (24, 32),
            global_size: (48, 64),
            locals: 3,
            ..CROPS
        };
        let views = crop.views(&AugmentConfig::default()).unwrap();
        let sizes: Vec<_> = views.iter().map(Transform::size).collect();
        assert_eq!(sizes, [(48, 64), (48, 64), (24, 32), (24, 32), (24, 32)]);
        let image = RgbImage::from_fn(80, 60, |x, y| Rgb([x as u8 * 3, y as u8 * 4, 77]));
        for view in &views {
            let found = view.apply(image.clone(), Key::new(1)).unwrap();
            assert_eq!(found.size, view.size());
            assert!(found.pixels.iter().all(|value| value.is_finite()));
        }
        let error = MultiCrop {
            local_scale: (0.5, 0.1),
            ..crop
        };
        assert!(error.views(&AugmentConfig::default()).is_err());
    }

    /// Blur and solarisation affect only their views, which otherwise have the same crop.
    #[test]
    fn each_view_has_its_own_probabilities() {
        let plain = MultiCrop {
            global_size: (20, 20),
            local_size: (12, 12),
            locals: 1,
            color_jitter: 0.0,
            grayscale: 0.0,
            blur: [0.0; 3],
            blur_radius: (1.0, 2.0),
            solarize: 0.0,
            ..CROPS
        };
        let image = RgbImage::from_fn(40, 40, |x, y| Rgb([x as u8 * 6, y as u8 * 6, 200]));
        let shown = |crop: MultiCrop| -> Vec<Vec<f32>> {
            let views = crop.views(&AugmentConfig::default()).unwrap();
            let show = |view: &Transform| view.apply(image.clone(), Key::new(5)).unwrap().pixels;
            views.iter().map(show).collect()
        };
        let changed = |crop: MultiCrop| -> Vec<bool> {
            let pairs = shown(crop).into_iter().zip(shown(plain));
            pairs.map(|(a, b)| a != b).collect()
        };
        let blur = |blur| changed(MultiCrop { blur, ..plain });
        assert_eq!(blur([1.0, 0.0, 0.0]), [true, false, false]);
        assert_eq!(blur([0.0, 1.0, 0.0]), [false, true, false]);
        assert_eq!(blur([0.0, 0.0, 1.0]), [false, false, true]);
        let solarize = MultiCrop {
            solarize: 1.0,
            ..plain
        };
        assert_eq!(changed(solarize), [false, true, false]);
        let of_all = MultiCrop {
            grayscale: 1.0,
            ..plain
        };
        assert_eq!(changed(of_all), [true; 3]);
    }

    /// How often each step changes an image.
    #[test]
    fn steps_happen_as_often_as_told() {
        let image = RgbImage::from_fn(6, 6, |x, y| Rgb([x as u8 * 40, y as u8 * 40, 200]));
        let n = 1500_u64;
        let crop = MultiCrop {
            blur_radius: (0.5, 2.0),
            ..CROPS
        };
        for (step, prob) in crop.steps(0.1, 0.2).iter().zip([0.8, 0.2, 0.1, 0.2]) {
            let changed = (0..n).filter(|key| step.apply(image.clone(), Key::new(*key)) != image);
            let (count, expected) = (changed.count() as f64, n as f64 * prob);
            let std = (expected * (1.0 - prob)).sqrt();
            assert!((count - expected).abs() < 5.0 * std, "{step:?}: {count}");
        }
    }
}
