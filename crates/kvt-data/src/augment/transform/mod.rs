//! The steps for one image, as a value that is created once from the settings and shared by the workers.

mod fit;

use fast_image_resize::{FilterType, ResizeError};
use image::{Rgb, RgbImage, imageops};
use rand::RngExt;

use crate::augment::crop::random_resized_crop;
use crate::augment::normalize::Levels;
use crate::augment::resize::{resize, resize_crop};
use crate::augment::{AugmentConfig, Interpolation, Preset, RandomErasing, Step};
use crate::schema;
use kvt_ops::Key;

/// Invalid settings, or an image that cannot be transformed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AugmentError {
    /// A value out of range.
    #[error("`{key}` is {value}: expected {expected}")]
    Setting {
        /// The value's key.
        key: String,
        /// The value.
        value: String,
        /// What is allowed.
        expected: String,
    },
    /// An image without pixels.
    #[error("the image has no pixels")]
    Empty,
    /// An image that would become too large.
    #[error(
        "resized to {width} x {height} pixels by `{key}`, the image would have more than `data.max_pixels` = {most}"
    )]
    Enlarged {
        /// Its new width.
        width: u32,
        /// Its new height.
        height: u32,
        /// The key that says how large it becomes.
        key: &'static str,
        /// The largest number of pixels.
        most: u64,
    },
    /// An image that would become too narrow.
    #[error(
        "resized to {width} x {height} pixels by `dense.scale`, the image is too narrow for the model, which needs {least} pixels on each side"
    )]
    Narrow {
        /// Its new width.
        width: u32,
        /// Its new height.
        height: u32,
        /// The minimum side.
        least: u32,
    },
    /// A buffer whose length does not match one image.
    #[error("the output holds {found} numbers, but an image of this size has {expected}")]
    Output {
        /// Length of the buffer.
        found: usize,
        /// 3 x height x width.
        expected: usize,
    },
    /// The resize itself failed.
    #[error("could not resize the image: {0}")]
    Resize(#[from] ResizeError),
}

/// Turns a decoded image into normalised numbers.
#[derive(Debug, Clone)]
pub struct Transform {
    pub(super) config: AugmentConfig,
    pub(super) is_training: bool,
    pub(super) width: u32,
    pub(super) height: u32,
    /// Between the flips and the normalisation, in training.
    steps: Vec<Step>,
    /// After the normalisation, in training.
    erasing: Option<RandomErasing>,
    levels: Levels,
}

impl Transform {
    /// The transform of training images to `size` (height, width) in pixels. After the preset's crop, an image is
    /// flipped, augmented by `auto` or `color_jitter`, normalised, and partly erased.
    ///
    /// # Errors
    ///
    /// [`AugmentError::Setting`] if a value is invalid.
    pub fn train(config: &AugmentConfig, size: (usize, usize)) -> Result<Self, AugmentError> {
        Self::new(config, size, true)
    }

    /// The transform of evaluation images to `size` (height, width) in pixels: resizes according to `crop_mode`, so that a
    /// fraction `crop_pct` of the sides becomes `size`, then takes the centre.
    ///
    /// # Errors
    ///
    /// [`AugmentError::Setting`] if a value is invalid.
    pub fn evaluation(config: &AugmentConfig, size: (usize, usize)) -> Result<Self, AugmentError> {
        Self::new(config, size, false)
    }

    fn new(
        config: &AugmentConfig,
        size: (usize, usize),
        is_training: bool,
    ) -> Result<Self, AugmentError> {
        let refuse = |key: &str, value: String, expected: &str| AugmentError::Setting {
            key: key.to_owned(),
            value,
            expected: expected.to_owned(),
        };
        let side = |pixels: usize| match u32::try_from(pixels) {
            Ok(side @ 1..=65_535) => Ok(side),
            _ => Err(refuse(
                "model.img_size",
                pixels.to_string(),
                "1 to 65535 pixels",
            )),
        };
        schema::check(config).map_err(|(key, refusal)| {
            refuse(&format!("augment.{key}"), refusal.value, &refusal.expected)
        })?;
        if let Some((key, pair)) = config.reversed().next() {
            let (key, value) = (format!("augment.{key}"), format!("{pair:?}"));
            return Err(refuse(&key, value, "the smaller value first"));
        }
        let steps = Step::of(config, size).map_err(|error| {
            refuse(
                "augment.auto",
                format!("{:?}", config.auto),
                &error.wanted(),
            )
        })?;
        Ok(Self {
            config: config.clone(),
            is_training,
            height: side(size.0)?,
            width: side(size.1)?,
            steps,
            erasing: RandomErasing::new(config),
            levels: Levels::new(config.mean, config.std),
        })
    }

    /// The same with different steps between the flips and the normalisation of a training image.
    #[must_use]
    pub fn with_steps(self, steps: Vec<Step>) -> Self {
        Self { steps, ..self }
    }

    /// The same without random erasing, for a task that mixes images before it erases.
    #[must_use]
    pub fn without_erasing(self) -> Self {
        Self {
            erasing: None,
            ..self
        }
    }

    /// Height and width of the result, in pixels.
    pub fn size(&self) -> (usize, usize) {
        (self.height as usize, self.width as usize)
    }

    /// Transforms one image and writes it normalised, `[3, height, width]`, to `out`. An evaluation does not use the key.
    ///
    /// # Errors
    ///
    /// If an image has no pixels, or `out` has the wrong length.
    pub fn apply(&self, image: RgbImage, key: Key, out: &mut [f32]) -> Result<(), AugmentError> {
        let (image, flip) = self.pixels(image, key)?;
        self.finish(&image, flip, key, out)
    }

    /// Writes an image of the final size, normalised and erased, to a buffer of the right length.
    pub(super) fn finish(
        &self,
        image: &RgbImage,
        flip: bool,
        key: Key,
        out: &mut [f32],
    ) -> Result<(), AugmentError> {
        let plane = image.width() as usize * image.height() as usize;
        if out.len() != 3 * plane {
            return Err(AugmentError::Output {
                found: out.len(),
                expected: 3 * plane,
            });
        }
        self.normalize(image, flip, key, out);
        Ok(())
    }

    /// Writes an image of the final size, normalised, `[3, height, width]`, flipped if requested, and erases parts of it.
    pub fn normalize(&self, image: &RgbImage, flip: bool, key: Key, out: &mut [f32]) {
        self.levels.write(image, flip, out);
        if let Some(erasing) = self.erasing.filter(|_| self.is_training) {
            let patches = erasing.patches(self.size(), key.named("erase"));
            patches
                .iter()
                .for_each(|patch| patch.apply(out, self.size()));
        }
    }

    /// The image at its final size, and whether it must still be flipped.
    pub fn pixels(&self, image: RgbImage, key: Key) -> Result<(RgbImage, bool), AugmentError> {
        if image.width() == 0 || image.height() == 0 {
            return Err(AugmentError::Empty);
        }
        if !self.is_training {
            return Ok((self.fit(image)?, false));
        }
        let image = self.crop(image, key)?;
        Ok(self.augmented(image, key))
    }

    /// A training image of the final size after flips and steps, and whether it must still be flipped.
    pub(super) fn augmented(&self, mut image: RgbImage, key: Key) -> (RgbImage, bool) {
        let happens = |name: &str, prob: f64| key.named(name).rng().random::<f64>() < prob;
        let flip = happens("hflip", self.config.hflip);
        if happens("vflip", self.config.vflip) {
            imageops::flip_vertical_in_place(&mut image);
        }
        if self.steps.is_empty() {
            // Flipped during normalisation, at no extra cost.
            return (image, flip);
        }
        if flip {
            imageops::flip_horizontal_in_place(&mut image);
        }
        let image = self
            .steps
            .iter()
            .fold(image, |image, step| step.apply(image, key));
        (image, false)
    }

    /// The preset's crop of a training image, at its final size.
    fn crop(&self, image: RgbImage, key: Key) -> Result<RgbImage, AugmentError> {
        let (size, config) = ((self.width, self.height), &self.config);
        let filter = self.filter(Some(key));
        let mut rng = key.named("crop").rng();
        match config.preset {
            Preset::Imagenet => {
                let (scale, ratio) = (config.scale.into(), config.ratio.into());
                let crop = random_resized_crop(image.dimensions(), scale, ratio, &mut rng);
                resize_crop(image, crop, size, filter)
            }
            Preset::Cifar => {
                let image = resize(image, size, filter)?;
                let left = rng.random_range(0..=2 * config.padding);
                let top = rng.random_range(0..=2 * config.padding);
                Ok(padded_crop(&image, config.padding, left, top))
            }
            Preset::None => resize(image, size, filter),
        }
    }

    /// The filter for an image; without a key, a random filter is bicubic.
    pub(super) fn filter(&self, key: Option<Key>) -> FilterType {
        let is_bilinear = match self.config.interpolation {
            Interpolation::Bilinear => true,
            Interpolation::Bicubic => false,
            Interpolation::Random => {
                key.is_some_and(|key| key.named("interpolation").rng().random())
            }
        };
        if is_bilinear {
            FilterType::Bilinear
        } else {
            FilterType::CatmullRom
        }
    }
}

/// The window of the image's size at (left, top) of the image with a black border of `padding` pixels.
fn padded_crop(image: &RgbImage, padding: u32, left: u32, top: u32) -> RgbImage {
    RgbImage::from_fn(image.width(), image.height(), |x, y| {
        let inside = |at: u32, offset: u32| (at + offset).checked_sub(padding);
        inside(x, left)
            .zip(inside(y, top))
            .and_then(|(x, y)| image.get_pixel_checked(x, y))
            .copied()
            .unwrap_or(Rgb([0; 3]))
    })
}

#[cfg(test)]
mod tests;
