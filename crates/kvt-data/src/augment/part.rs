//! Partly decoded images: only the part that a transform uses, possibly at reduced size.

use image::RgbImage;
use kvt_ops::Key;

use crate::augment::crop::{Crop, random_resized_crop};
use crate::augment::resize::resize_box;
use crate::augment::{AugmentError, Preset, Transform};
use crate::batch::Image;
use crate::raster::Raster;

/// The part of an image that a transform uses, and its target size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// The part of the image.
    pub crop: Crop,
    /// Width and height that it is resized to, in pixels.
    pub size: (u32, u32),
}

/// A decoded part of an image, including pixels around the crop.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// The pixels.
    pub image: RgbImage,
    /// Offset and length of the crop, horizontally, in pixels of this image.
    pub across: (f64, f64),
    /// The same vertically.
    pub down: (f64, f64),
}

impl Transform {
    /// The part that this transform will use of an image of (width, height); `None` if it is the whole image, or not known
    /// before the image is decoded.
    pub fn looks_at(&self, size: (u32, u32), key: Key) -> Option<Look> {
        let config = &self.config;
        (self.is_training && config.preset == Preset::Imagenet).then(|| {
            // The same draw as in `pixels`.
            let (scale, ratio) = (config.scale.into(), config.ratio.into());
            let mut rng = key.named("crop").rng();
            Look {
                crop: random_resized_crop(size, scale, ratio, &mut rng),
                size: (self.width, self.height),
            }
        })
    }

    /// As [`apply`](Self::apply), for the part that [`looks_at`](Self::looks_at) returned.
    ///
    /// # Errors
    ///
    /// If the crop is not in the part.
    pub fn apply_part(&self, part: &Part, key: Key) -> Result<Image, AugmentError> {
        Ok(self.finished(&self.part_pixels(part, key)?, key))
    }

    /// The image at its final size.
    pub fn part_pixels(&self, part: &Part, key: Key) -> Result<Raster, AugmentError> {
        let size = (self.width, self.height);
        let filter = self.filter(Some(key));
        // Grey is resized, not the colours; a JPEG has no alpha.
        let grey = (self.channels() == 1).then(|| self.seen(part.image.clone().into()).rgb);
        let image = grey.as_ref().unwrap_or(&part.image);
        let image = resize_box(image, size, part.across, part.down, filter)?;
        Ok(self.augmented(self.seen(image.into()), key))
    }
}
