//! Augmentation of an image together with its objects, as DETR and mmdetection do it for COCO.
//!
//! Training flips both, resizes and cuts half of them, resizes them to one of several sizes, and normalises. An evaluation resizes to the
//! largest of the sizes. Images are resized bilinearly, masks to the nearest pixel.

mod config;
mod objects;
mod placement;

use image::{RgbImage, imageops};
use kvt_ops::Key;
use rand::RngExt;

pub use self::config::MultiscaleConfig;
pub use self::objects::Objects;
use self::placement::Side;
use super::joint::geometry::{fitted, resize};
use super::joint::{normalized, within};
use super::normalize::Levels;
use super::resize::cut;
use super::{AugmentConfig, AugmentError, Crop};
use crate::batch::Image;
use crate::prepare::{Example, Prepare};
use crate::source::ImageObjects;
use crate::{DataError, ImageLimits, Source};

/// Shorter sides before a crop, in pixels.
const SIZES_BEFORE: [u32; 3] = [400, 500, 600];
/// Smallest and largest side of a crop, in pixels.
const CROP: [u32; 2] = [384, 600];

/// Images with objects, for training or for an evaluation.
#[derive(Debug, Clone)]
pub struct PrepareObjects {
    config: MultiscaleConfig,
    levels: Levels,
    limits: ImageLimits,
}

/// What is done to an image: the steps in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Steps {
    flips: bool,
    /// Width and height before a crop, and the crop.
    before: Option<((u32, u32), Crop)>,
    /// Width and height at last.
    size: (u32, u32),
}

impl Steps {
    /// Draws the steps for an image of (width, height).
    fn draw(config: &MultiscaleConfig, size: (u32, u32), key: Key) -> Self {
        let share = |name: &str| key.named(name).rng().random::<f64>();
        let one_of = |name: &str, sizes: &[u32]| {
            let place = key.named(name).rng().random_range(0..sizes.len() as u64);
            sizes.get(place as usize).copied().unwrap_or(config.max)
        };
        let flips = share("hflip") < config.hflip;
        let crops = config.crop_before && share("crop_before") < 0.5;
        let before = crops.then(|| {
            let short = one_of("size_before", &SIZES_BEFORE);
            let (width, height) = fitted(size, long_first(config.max, short));
            let mut rng = key.named("crop").rng();
            let mut side = |side: u32| {
                let [least, most] = CROP.map(|limit| limit.min(side));
                rng.random_range(least..=most)
            };
            let (rows, columns) = (side(height), side(width));
            let crop = Crop {
                top: rng.random_range(0..=height - rows),
                left: rng.random_range(0..=width - columns),
                width: columns,
                height: rows,
            };
            ((width, height), crop)
        });
        let shown = before.map_or(size, |(_, crop)| (crop.width, crop.height));
        let short = one_of("size", &config.sizes);
        Self {
            flips,
            before,
            size: fitted(shown, long_first(config.max, short)),
        }
    }

    fn apply(
        &self,
        mut image: RgbImage,
        found: ImageObjects<'_>,
    ) -> Result<(RgbImage, Objects), AugmentError> {
        let (mut columns, mut rows) = (Side::whole(image.width()), Side::whole(image.height()));
        if self.flips {
            imageops::flip_horizontal_in_place(&mut image);
            columns.flip();
        }
        if let Some(((width, height), crop)) = self.before {
            image = cut(resize(image, (width, height))?, crop);
            columns.resize(width);
            rows.resize(height);
            columns.crop(crop.left, crop.width);
            rows.crop(crop.top, crop.height);
        }
        image = resize(image, self.size)?;
        columns.resize(self.size.0);
        rows.resize(self.size.1);
        Ok((image, Objects::new(found, &rows, &columns)))
    }
}

impl PrepareObjects {
    /// For training, with mean and deviation of `augment`; images beyond `limits` are unreadable.
    ///
    /// # Errors
    /// [`AugmentError::Setting`] if a value is invalid.
    pub fn train(
        config: &MultiscaleConfig,
        augment: &AugmentConfig,
        limits: ImageLimits,
    ) -> Result<Self, AugmentError> {
        AugmentError::check("multiscale", config)?;
        if let Some((key, value, expected)) = config.misfit() {
            return Err(AugmentError::Setting {
                key: format!("multiscale.{key}"),
                value,
                expected,
            });
        }
        Ok(Self {
            config: config.clone(),
            levels: Levels::new(&augment.mean, &augment.std),
            limits,
        })
    }

    /// For an evaluation, which draws nothing: images have the largest of the sizes.
    ///
    /// # Errors
    /// As [`train`](Self::train).
    pub fn evaluation(
        config: &MultiscaleConfig,
        augment: &AugmentConfig,
        limits: ImageLimits,
    ) -> Result<Self, AugmentError> {
        let train = Self::train(config, augment, limits)?;
        Ok(Self {
            config: MultiscaleConfig {
                sizes: vec![config.largest()],
                crop_before: false,
                hflip: 0.0,
                ..train.config
            },
            ..train
        })
    }

    /// The augmented image before normalisation, and its objects.
    ///
    /// # Errors
    /// If the image has no pixels, would have more than `data.max_pixels`, or cannot be resized.
    pub fn augment(
        &self,
        image: RgbImage,
        found: ImageObjects<'_>,
        key: Key,
    ) -> Result<(RgbImage, Objects), AugmentError> {
        let steps = Steps::draw(&self.config, image.dimensions(), key);
        if let Some((size, _)) = steps.before {
            within(size, self.limits, "multiscale.crop_before")?;
        }
        within(steps.size, self.limits, "multiscale.sizes")?;
        steps.apply(image, found)
    }

    /// An image as the model sees it in an evaluation, without objects.
    ///
    /// # Errors
    /// If it has no pixels, would have more than `data.max_pixels`, or cannot be resized.
    pub fn image(&self, image: RgbImage) -> Result<Image, AugmentError> {
        let scale = long_first(self.config.max, self.config.largest());
        let size = fitted(image.dimensions(), scale);
        within(size, self.limits, "multiscale.sizes")?;
        Ok(normalized(&self.levels, resize(image, size)?))
    }
}

impl Prepare<Objects> for PrepareObjects {
    fn prepare(
        &self,
        source: &Source,
        index: u32,
        key: Key,
    ) -> Result<Example<Objects>, DataError> {
        let (image, found) = source.annotated(index, self.limits)?;
        let augmented = self.augment(image, found, key);
        let (image, target) = augmented.map_err(|error| error.at(source.path_of(index)))?;
        Ok(Example {
            views: vec![normalized(&self.levels, image)],
            target,
        })
    }
}

/// The rule of mm takes the larger number for the longer side, in any order.
fn long_first(max: u32, short: u32) -> [u32; 2] {
    [max.max(short), max.min(short)]
}

#[cfg(test)]
mod tests;
