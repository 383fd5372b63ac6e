//! The views of DINO (Caron et al. 2021): large crops for teacher and student, small ones for the student, each with its
//! own colour jitter, greyscale, blur and solarisation (`DataAugmentationDINO` of `main_dino.py`).

use super::DinoConfig;
use crate::augment::{AugmentConfig, AugmentError, ColorJitter, Preset, Step, Transform};

impl DinoConfig {
    /// The transforms of all views: first the two global ones of `size` (height, width) in pixels, then the local ones. `augment` gives
    /// aspect ratios, flips, interpolation and normalisation; its automatic augmentation, jitter and erasing are not used.
    ///
    /// # Errors
    /// [`AugmentError::Setting`] if a value is invalid.
    pub(super) fn views(
        &self,
        augment: &AugmentConfig,
        size: (usize, usize),
    ) -> Result<Vec<Transform>, AugmentError> {
        let view = |size, scale, steps| {
            let config = AugmentConfig {
                preset: Preset::Imagenet,
                scale,
                auto: String::new(),
                color_jitter: 0.0,
                erase: 0.0,
                ..augment.clone()
            };
            Ok(Transform::train(&config, size)?.with_steps(steps))
        };
        let [first, second, local] = self.blur;
        let global = |blur, solarize| view(size, self.global_scale, self.steps(blur, solarize));
        let local_size = (self.local_size, self.local_size);
        let local = |_| view(local_size, self.local_scale, self.steps(local, 0.0));
        [global(first, 0.0), global(second, self.solarize)]
            .into_iter()
            .chain((0..self.local_views).map(local))
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
                radius: self.blur_radius.into(),
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

    #[test]
    fn there_are_two_large_views_and_many_small_ones() {
        let config = DinoConfig {
            local_size: 24,
            local_views: 3,
            ..DinoConfig::default()
        };
        let of = |config: &DinoConfig| config.views(&AugmentConfig::default(), (48, 64));
        let views = of(&config).unwrap();
        let sizes: Vec<_> = views.iter().map(Transform::size).collect();
        assert_eq!(sizes, [(48, 64), (48, 64), (24, 24), (24, 24), (24, 24)]);
        let image = RgbImage::from_fn(80, 60, |x, y| Rgb([x as u8 * 3, y as u8 * 4, 77]));
        for view in &views {
            let found = view.apply(image.clone(), Key::new(1)).unwrap();
            assert_eq!(found.size, view.size());
            assert!(found.pixels.iter().all(|value| value.is_finite()));
        }
        let error = DinoConfig {
            local_scale: [0.5, 0.1],
            ..config
        };
        assert!(of(&error).is_err());
    }

    /// Scale, blur and solarisation affect only their views, which otherwise have the same crop.
    #[test]
    fn each_view_has_its_own_settings() {
        let plain = DinoConfig {
            local_size: 12,
            local_views: 1,
            color_jitter: 0.0,
            grayscale: 0.0,
            blur: [0.0; 3],
            blur_radius: [1.0, 2.0],
            solarize: 0.0,
            ..DinoConfig::default()
        };
        let image = RgbImage::from_fn(40, 40, |x, y| Rgb([x as u8 * 6, y as u8 * 6, 200]));
        let shown = |config: &DinoConfig| -> Vec<Vec<f32>> {
            let views = config.views(&AugmentConfig::default(), (20, 20)).unwrap();
            let show = |view: &Transform| view.apply(image.clone(), Key::new(5)).unwrap().pixels;
            views.iter().map(show).collect()
        };
        let changed = |change: &dyn Fn(&mut DinoConfig)| -> Vec<bool> {
            let mut config = plain.clone();
            change(&mut config);
            let pairs = shown(&config).into_iter().zip(shown(&plain));
            pairs.map(|(a, b)| a != b).collect()
        };
        let blur = |blur: [f64; 3]| changed(&|config| config.blur = blur);
        assert_eq!(blur([1.0, 0.0, 0.0]), [true, false, false]);
        assert_eq!(blur([0.0, 1.0, 0.0]), [false, true, false]);
        assert_eq!(blur([0.0, 0.0, 1.0]), [false, false, true]);
        let solarized = changed(&|config| config.solarize = 1.0);
        assert_eq!(solarized, [false, true, false]);
        assert_eq!(changed(&|config| config.grayscale = 1.0), [true; 3]);
        let of_global = changed(&|config| config.global_scale = [0.1, 0.2]);
        assert_eq!(of_global, [true, true, false]);
        let of_local = changed(&|config| config.local_scale = [0.8, 0.9]);
        assert_eq!(of_local, [false, false, true]);
    }

    /// How often each step changes an image.
    #[test]
    fn steps_happen_as_often_as_told() {
        let image = RgbImage::from_fn(6, 6, |x, y| Rgb([x as u8 * 40, y as u8 * 40, 200]));
        let n = 1500_u64;
        let config = DinoConfig {
            blur_radius: [0.5, 2.0],
            ..DinoConfig::default()
        };
        for (step, prob) in config.steps(0.1, 0.2).iter().zip([0.8, 0.2, 0.1, 0.2]) {
            let changed = (0..n).filter(|key| step.apply(image.clone(), Key::new(*key)) != image);
            let (count, expected) = (changed.count() as f64, n as f64 * prob);
            let std = (expected * (1.0 - prob)).sqrt();
            assert!((count - expected).abs() < 5.0 * std, "{step:?}: {count}");
        }
    }
}
