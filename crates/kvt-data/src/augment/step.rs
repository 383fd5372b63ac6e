//! A step between the flips and the normalisation, on 8-bit pixels.

use image::RgbImage;
use kvt_ops::Key;
use rand::RngExt;

use super::{AugmentConfig, AutoAugment, AutoError, ColorJitter, ops};

/// A random change of the colours or the geometry of an image. Each kind draws from a separate named stream.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// RandAugment, AugMix, AutoAugment or 3-Augment.
    Auto(AutoAugment),
    /// Colour jitter.
    Jitter {
        /// Its ranges.
        jitter: ColorJitter,
        /// Probability.
        prob: f64,
    },
    /// Conversion to greyscale.
    Grayscale {
        /// Probability.
        prob: f64,
    },
    /// Gaussian blur.
    GaussianBlur {
        /// Probability.
        prob: f64,
        /// Smallest and largest standard deviation, in pixels; uniform.
        radius: (f64, f64),
    },
    /// Inverts the levels from a threshold on.
    Solarize {
        /// Probability.
        prob: f64,
        /// The lowest level that is inverted.
        threshold: u32,
    },
}

impl Step {
    /// The steps of `augment.auto` and `augment.color_jitter`.
    pub(super) fn of(config: &AugmentConfig) -> Result<Vec<Self>, AutoError> {
        let auto = AutoAugment::new(config)?.map(Self::Auto);
        let jitter = config.jitters().then(|| Self::Jitter {
            jitter: ColorJitter::uniform(config.color_jitter),
            prob: 1.0,
        });
        Ok(auto.into_iter().chain(jitter).collect())
    }

    /// Draws from the image's `key`, and may change the image.
    #[must_use]
    pub fn apply(&self, mut image: RgbImage, key: Key) -> RgbImage {
        let happens = |key: Key, prob: f64| key.rng().random::<f64>() < prob;
        match self {
            Self::Auto(auto) => return auto.apply(image, key.named("auto")),
            Self::Jitter { jitter, prob } => {
                let key = key.named("jitter");
                if happens(key.named("prob"), *prob) {
                    let adjustments = jitter.draw(key).into_iter();
                    image = adjustments.fold(image, |image, one| one.apply(image));
                }
            }
            Self::Grayscale { prob } => {
                if happens(key.named("grayscale"), *prob) {
                    ops::grayscale(&mut image);
                }
            }
            Self::GaussianBlur { prob, radius } => {
                let key = key.named("blur");
                if happens(key.named("prob"), *prob) {
                    let share: f64 = key.rng().random();
                    ops::gaussian_blur(&mut image, radius.0 + (radius.1 - radius.0) * share);
                }
            }
            Self::Solarize { prob, threshold } => {
                if happens(key.named("solarize"), *prob) {
                    ops::solarize(&mut image, *threshold);
                }
            }
        }
        image
    }
}
