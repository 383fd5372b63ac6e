//! The steps of one image, as one value that is made once from the settings and shared by the workers.

use fast_image_resize::{FilterType, ResizeError};
use image::{Rgb, RgbImage};
use rand::RngExt;

use crate::augment::crop::{center_crop, random_resized_crop};
use crate::augment::normalize::Levels;
use crate::augment::resize::{resize, resize_crop, resize_part};
use crate::augment::{AugmentConfig, Interpolation, Preset};
use crate::schema;
use kvt_ops::Key;

/// Settings that cannot be carried out, or an image that they do not fit.
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
    /// A buffer of another length than one image's.
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

/// From a decoded image to normalised numbers.
#[derive(Debug, Clone)]
pub struct Transform {
    pub(super) config: AugmentConfig,
    pub(super) is_training: bool,
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) filter: FilterType,
    levels: Levels,
}

impl Transform {
    /// The transform of training images, to `size` (height, width) in pixels. After the preset's steps an image is
    /// flipped, then normalised.
    ///
    /// # Errors
    ///
    /// [`AugmentError::Setting`] if a value makes no sense.
    pub fn train(config: &AugmentConfig, size: (usize, usize)) -> Result<Self, AugmentError> {
        Self::new(config, size, true)
    }

    /// The transform of images to evaluate, to `size` (height, width) in pixels: resize so that the image just covers
    /// `size / crop_pct`, then the centre.
    ///
    /// # Errors
    ///
    /// [`AugmentError::Setting`] if a value makes no sense.
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
        Ok(Self {
            config: config.clone(),
            is_training,
            height: side(size.0)?,
            width: side(size.1)?,
            filter: match config.interpolation {
                Interpolation::Bilinear => FilterType::Bilinear,
                Interpolation::Bicubic => FilterType::CatmullRom,
            },
            levels: Levels::new(config.mean, config.std),
        })
    }

    /// Height and width of the result, in pixels.
    pub fn size(&self) -> (usize, usize) {
        (self.height as usize, self.width as usize)
    }

    /// Transforms one image and writes it normalised, `[3, height, width]`, to `out`. An evaluation does not use the key.
    ///
    /// # Errors
    ///
    /// An image without pixels, or an `out` of another length.
    pub fn apply(&self, image: RgbImage, key: Key, out: &mut [f32]) -> Result<(), AugmentError> {
        let (image, flip) = self.pixels(image, key)?;
        self.finish(&image, flip, out)
    }

    /// Writes an image of the final size as [`normalize`](Self::normalize), into numbers of the right length.
    pub(super) fn finish(
        &self,
        image: &RgbImage,
        flip: bool,
        out: &mut [f32],
    ) -> Result<(), AugmentError> {
        let plane = image.width() as usize * image.height() as usize;
        if out.len() != 3 * plane {
            return Err(AugmentError::Output {
                found: out.len(),
                expected: 3 * plane,
            });
        }
        self.normalize(image, flip, out);
        Ok(())
    }

    /// Writes an image of the final size normalised, `[3, height, width]`, flipped or not.
    pub(crate) fn normalize(&self, image: &RgbImage, flip: bool, out: &mut [f32]) {
        self.levels.write(image, flip, out);
    }

    /// The image at its final size, and whether it is to be flipped.
    pub(crate) fn pixels(
        &self,
        image: RgbImage,
        key: Key,
    ) -> Result<(RgbImage, bool), AugmentError> {
        if image.width() == 0 || image.height() == 0 {
            return Err(AugmentError::Empty);
        }
        let size = (self.width, self.height);
        let config = &self.config;
        if !self.is_training {
            let covering = cover(image.dimensions(), size, config.crop_pct);
            let crop = center_crop(covering, size);
            return Ok((resize_part(image, covering, crop, self.filter)?, false));
        }
        let mut rng = key.named("crop").rng();
        let image = match config.preset {
            Preset::Imagenet => {
                let (scale, ratio) = (config.scale.into(), config.ratio.into());
                let crop = random_resized_crop(image.dimensions(), scale, ratio, &mut rng);
                resize_crop(image, crop, size, self.filter)?
            }
            Preset::Cifar => {
                let image = resize(image, size, self.filter)?;
                let left = rng.random_range(0..=2 * config.padding);
                let top = rng.random_range(0..=2 * config.padding);
                padded_crop(&image, config.padding, left, top)
            }
            Preset::None => resize(image, size, self.filter)?,
        };
        Ok((image, self.flips(key)))
    }

    /// Whether a training image is to be flipped.
    pub(super) fn flips(&self, key: Key) -> bool {
        key.named("hflip").rng().random::<f64>() < self.config.hflip
    }
}

/// The (width, height) to resize to, so that the image covers `size / crop_pct` and one side fits it exactly. For a square
/// target this is torchvision's `Resize(int(size / crop_pct))`: the shorter side fits, the longer is cut to whole pixels.
fn cover((width, height): (u32, u32), size: (u32, u32), crop_pct: f64) -> (u32, u32) {
    let whole = |side: u32| (f64::from(side) / crop_pct) as u32;
    let (target_width, target_height) = (whole(size.0), whole(size.1));
    let long = |target: u32, long: u32, short: u32| {
        u32::try_from(u64::from(target) * u64::from(long) / u64::from(short)).unwrap_or(u32::MAX)
    };
    let fitted_height = long(target_width, height, width);
    if fitted_height >= target_height {
        (target_width, fitted_height)
    } else {
        (
            long(target_height, width, height).max(target_width),
            target_height,
        )
    }
}

/// The window of the image's own size at (left, top) of the image with a black border of `padding` pixels.
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
