//! Augmentation of an image together with its mask, as mmsegmentation's pipeline for ADE20K.
//!
//! Training resizes both by a random number, cuts out a part, flips it, distorts its colours, normalises, and fills the rest of the
//! crop with zeros, where the mask is ignored. An evaluation resizes the image alone: the mask stays at its original size.

mod config;
pub(super) mod geometry;
mod photometric;

use image::RgbImage;
use kvt_ops::Key;
use rand::RngExt;

pub use self::config::DenseConfig;
use self::photometric::Photometric;
use crate::augment::normalize::Levels;
use crate::augment::{AugmentConfig, AugmentError};
use crate::batch::Image;
use crate::prepare::{Example, Prepare};
use crate::{DataError, ImageLimits, LabelMap, Source};

/// Images with masks for training.
#[derive(Debug, Clone)]
pub struct JointTrain {
    config: DenseConfig,
    levels: Levels,
    limits: ImageLimits,
}

/// Images with masks for evaluation.
#[derive(Debug, Clone)]
pub struct JointEval {
    train: JointTrain,
    /// The minimum side of a resized image.
    least: u32,
}

impl JointTrain {
    /// With mean and deviation of `augment`; images beyond `limits` are unreadable.
    ///
    /// # Errors
    /// [`AugmentError::Setting`] if a value is invalid.
    pub fn new(
        config: &DenseConfig,
        augment: &AugmentConfig,
        limits: ImageLimits,
    ) -> Result<Self, AugmentError> {
        AugmentError::check("dense", config)?;
        let ([height, width], most) = (config.crop, limits.max_pixels);
        if u64::from(height) * u64::from(width) > most {
            return Err(AugmentError::Setting {
                key: "dense.crop".to_owned(),
                value: format!("[{height}, {width}]"),
                expected: format!("at most `data.max_pixels` = {most} pixels"),
            });
        }
        Ok(Self {
            config: config.clone(),
            levels: Levels::new(&augment.mean, &augment.std),
            limits,
        })
    }

    /// Width and height of an image that is resized to fit `scale`.
    fn fitted(&self, image: &RgbImage, scale: [u32; 2]) -> Result<(u32, u32), AugmentError> {
        let size = geometry::fitted(image.dimensions(), scale);
        within(size, self.limits, "dense.scale")?;
        Ok(size)
    }

    /// The augmented image and its mask, of the size of the crop or smaller.
    ///
    /// # Errors
    /// If the image has no pixels, would have more than `data.max_pixels`, or cannot be resized.
    pub fn augment(
        &self,
        image: RgbImage,
        map: &LabelMap,
        key: Key,
    ) -> Result<(RgbImage, LabelMap), AugmentError> {
        let config = &self.config;
        let share = |name: &str| key.named(name).rng().random::<f64>();
        let [low, high] = config.ratio;
        let ratio = low + (high - low) * share("resize");
        let scale = config
            .scale
            .map(|side| ((f64::from(side) * ratio) as u32).max(1));
        let size = self.fitted(&image, scale)?;
        let map = geometry::nearest(map, size);
        let image = geometry::resize(image, size)?;
        let crop = geometry::draw_crop(&map, config.crop, config.cat_max_ratio, key.named("crop"));
        let (mut image, mut map) = geometry::crop(image, &map, crop);
        if share("hflip") < config.hflip {
            geometry::flip(&mut image, &mut map);
        }
        if config.photometric {
            Photometric::draw(key.named("photometric")).apply(&mut image);
        }
        Ok((image, map))
    }
}

impl Prepare<LabelMap> for JointTrain {
    fn prepare(
        &self,
        source: &Source,
        index: u32,
        key: Key,
    ) -> Result<Example<LabelMap>, DataError> {
        let (image, map) = source.pair(index, self.limits)?;
        let augmented = self.augment(image, &map, key);
        let (image, map) = augmented.map_err(|error| error.at(source.path_of(index)))?;
        let [height, width] = self.config.crop;
        let size = (height as usize, width as usize);
        Ok(Example {
            views: vec![padded(normalized(&self.levels, image), size)],
            target: geometry::pad(&map, size),
        })
    }
}

impl JointEval {
    /// With mean and deviation of `augment`; images beyond `limits` are unreadable, and those with a side below `least` after the resize,
    /// which the model needs, are refused.
    ///
    /// # Errors
    /// [`AugmentError::Setting`] if a value is invalid.
    pub fn new(
        config: &DenseConfig,
        augment: &AugmentConfig,
        limits: ImageLimits,
        least: u32,
    ) -> Result<Self, AugmentError> {
        let train = JointTrain::new(config, augment, limits)?;
        Ok(Self { train, least })
    }

    /// An image as the model sees it: resized and normalised, without a mask.
    ///
    /// # Errors
    /// If it has no pixels, would have more than `data.max_pixels`, or cannot be resized.
    pub fn image(&self, image: RgbImage) -> Result<Image, AugmentError> {
        let size @ (width, height) = self.train.fitted(&image, self.train.config.scale)?;
        let image = geometry::resize(image, size)?;
        if width.min(height) < self.least {
            let least = self.least;
            return Err(AugmentError::Narrow {
                width,
                height,
                least,
            });
        }
        Ok(normalized(&self.train.levels, image))
    }
}

impl Prepare<LabelMap> for JointEval {
    fn prepare(&self, source: &Source, index: u32, _: Key) -> Result<Example<LabelMap>, DataError> {
        let (image, target) = source.pair(index, self.train.limits)?;
        let image = self.image(image);
        Ok(Example {
            views: vec![image.map_err(|error| error.at(source.path_of(index)))?],
            target,
        })
    }
}

/// Refuses to resize an image to (width, height), as `key` says, with more pixels than an image may have.
pub(super) fn within(
    (width, height): (u32, u32),
    limits: ImageLimits,
    key: &'static str,
) -> Result<(), AugmentError> {
    let most = limits.max_pixels;
    if u64::from(width) * u64::from(height) <= most {
        return Ok(());
    }
    Err(AugmentError::Enlarged {
        width,
        height,
        key,
        most,
    })
}

pub(super) fn normalized(levels: &Levels, image: RgbImage) -> Image {
    let size = (image.height() as usize, image.width() as usize);
    let mut own = Image::zeros(size, levels.channels());
    levels.write(&image.into(), &mut own.pixels);
    own
}

/// An image with zeros at the right and bottom, up to (height, width).
fn padded(image: Image, size: (usize, usize)) -> Image {
    if image.size == size {
        return image;
    }
    let mut whole = Image::zeros(size, image.channels());
    image.write_into(&mut whole.pixels, size);
    whole
}

#[cfg(test)]
mod golden;
#[cfg(test)]
mod tests;
