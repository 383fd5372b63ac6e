//! The steps for one image, as a value that is created once from the settings and shared by the workers.

mod fit;

use std::path::PathBuf;

use fast_image_resize::{FilterType, ResizeError};
use image::{GrayImage, Luma, Rgb, RgbImage, imageops};
use rand::RngExt;
use schemars::JsonSchema;
use serde::Serialize;

use crate::augment::normalize::Levels;
use crate::augment::resize::{resize, resize_crop};
use crate::augment::{AugmentConfig, Preset, Step, ops};
use crate::batch::Image;
use crate::raster::Raster;
use crate::{DataError, schema};
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
    /// The resize itself failed.
    #[error("could not resize the image: {0}")]
    Resize(#[from] ResizeError),
}

impl AugmentError {
    /// That of an image, with its path.
    pub fn at(self, path: impl Into<PathBuf>) -> DataError {
        DataError::Augment {
            path: path.into(),
            source: self,
        }
    }

    /// Refuses the first value of a section that its schema rejects.
    pub(super) fn check<T: JsonSchema + Serialize>(section: &str, config: &T) -> Result<(), Self> {
        schema::check(config).map_err(|(key, refusal)| Self::Setting {
            key: format!("{section}.{key}"),
            value: refusal.value,
            expected: refusal.expected,
        })
    }
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
        AugmentError::check("augment", config)?;
        if !matches!(config.channels(), 1 | 3 | 4) || config.std.len() != config.channels() {
            let value = format!("{:?}, and `augment.std` {:?}", config.mean, config.std);
            let expected = "1, 3 or 4 numbers, one for each channel, in both";
            return Err(refuse("augment.mean", value, expected));
        }
        let steps = Step::of(config).map_err(|error| {
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
            levels: Levels::new(&config.mean, &config.std),
        })
    }

    /// The same with different steps between the flips and the normalisation of a training image.
    #[must_use]
    pub fn with_steps(self, steps: Vec<Step>) -> Self {
        Self { steps, ..self }
    }

    /// The same without random erasing, for a task that mixes images before it erases.
    #[must_use]
    pub fn without_erasing(mut self) -> Self {
        self.config.erase = 0.0;
        self
    }

    /// Height and width of the result, in pixels.
    pub fn size(&self) -> (usize, usize) {
        (self.height as usize, self.width as usize)
    }

    /// Number of channels of the result: 1, 3 or 4.
    pub fn channels(&self) -> usize {
        self.levels.channels()
    }

    /// Transforms one image. An evaluation does not use the key.
    ///
    /// # Errors
    ///
    /// If the image has no pixels, or cannot be resized.
    pub fn apply(&self, image: impl Into<Raster>, key: Key) -> Result<Image, AugmentError> {
        Ok(self.finished(&self.pixels(image, key)?, key))
    }

    /// An image of the final size, normalised and erased.
    pub(super) fn finished(&self, image: &Raster, key: Key) -> Image {
        let mut finished = Image::zeros(self.size(), self.channels());
        self.normalize(image, key, &mut finished.pixels);
        finished
    }

    /// Writes an image of the final size, normalised, `[channels, height, width]`, and erases parts of it.
    pub fn normalize(&self, image: &Raster, key: Key, out: &mut [f32]) {
        self.levels.write(image, out);
        if self.is_training {
            let patches = self.config.patches(self.size(), key.named("erase"));
            patches
                .iter()
                .for_each(|patch| patch.apply(out, self.size()));
        }
    }

    /// The image at its final size. Grey is in all colours of it.
    pub fn pixels(&self, image: impl Into<Raster>, key: Key) -> Result<Raster, AugmentError> {
        let image = self.seen(image.into());
        if image.rgb.width() == 0 || image.rgb.height() == 0 {
            return Err(AugmentError::Empty);
        }
        if !self.is_training {
            let is_resized =
                |image: &RgbImage| self.fitted(image.dimensions()) != image.dimensions();
            let image = image.placed(is_resized, |image| self.fit(image))?;
            return Ok(self.pad(image));
        }
        let is_resized = |image: &RgbImage| {
            let looked = self.looks_at(image.dimensions(), key);
            let crop = looked.map(|look| (look.crop.width, look.crop.height));
            crop.unwrap_or(image.dimensions()) != (self.width, self.height)
        };
        let image = image.placed(is_resized, |image| self.crop(image, key))?;
        Ok(self.augmented(image, key))
    }

    /// The image with the channels that are used. Of grey, the colours are equal, for which every step does what Pillow does to its
    /// `L`; alpha is there where it is used, and only there.
    pub(super) fn seen(&self, mut image: Raster) -> Raster {
        let (width, height) = image.rgb.dimensions();
        image.alpha = match (self.channels(), image.alpha) {
            (4, None) => Some(GrayImage::from_pixel(width, height, Luma([255]))),
            (4, alpha) => alpha,
            _ => None,
        };
        if self.channels() == 1 {
            ops::grayscale(&mut image.rgb);
        }
        image
    }

    /// A training image of the final size after flips and steps.
    pub(super) fn augmented(&self, mut image: Raster, key: Key) -> Raster {
        let happens = |name: &str, prob: f64| key.named(name).rng().random::<f64>() < prob;
        if happens("vflip", self.config.vflip) {
            imageops::flip_vertical_in_place(&mut image.rgb);
            image
                .alpha
                .iter_mut()
                .for_each(imageops::flip_vertical_in_place);
        }
        if happens("hflip", self.config.hflip) {
            imageops::flip_horizontal_in_place(&mut image.rgb);
            image
                .alpha
                .iter_mut()
                .for_each(imageops::flip_horizontal_in_place);
        }
        // Colour jitter leaves alpha as it is, as in Pillow; nothing else is allowed beside it.
        let steps = self.steps.iter();
        image.rgb = steps.fold(image.rgb, |image, step| step.apply(image, key));
        image
    }

    /// The preset's crop of a training image, at its final size.
    fn crop(&self, image: RgbImage, key: Key) -> Result<RgbImage, AugmentError> {
        let (config, filter) = (&self.config, self.filter(Some(key)));
        if let Some(look) = self.looks_at(image.dimensions(), key) {
            return resize_crop(image, look.crop, look.size, filter);
        }
        let image = resize(image, (self.width, self.height), filter)?;
        if config.preset != Preset::Cifar {
            return Ok(image);
        }
        let mut rng = key.named("crop").rng();
        let left = rng.random_range(0..=2 * config.padding);
        let top = rng.random_range(0..=2 * config.padding);
        Ok(padded_crop(&image, config.padding, left, top))
    }

    /// The filter for an image; without a key, a random filter is bicubic.
    pub(super) fn filter(&self, key: Option<Key>) -> FilterType {
        let drawn = || key.is_some_and(|key| key.named("interpolation").rng().random());
        if self.config.interpolation.is_bilinear(drawn) {
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
