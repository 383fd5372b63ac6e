//! The steps of one image, as one value that is made once from the plan and shared by the workers.

use fast_image_resize::{FilterType, ResizeError};
use image::{Rgb, RgbImage};
use rand::RngExt;

use crate::augment::crop::{center_crop, random_resized_crop};
use crate::augment::resize::{cut, resize, resize_part};
use kvt_ops::Key;

/// Which steps a training image goes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    /// Random resized crop.
    Imagenet,
    /// Resize if the size differs, zero padding and a random crop.
    Cifar,
    /// Resize if the size differs.
    None,
}

/// The kernel of a resize, stretched when the image shrinks (antialiasing), as in Pillow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interpolation {
    /// Triangle.
    Bilinear,
    /// Cubic with a = -0.5.
    Bicubic,
}

/// The augmentation of training images. After the preset's steps the image is flipped, then normalised.
#[derive(Debug, Clone, PartialEq)]
pub struct AugmentPlan {
    /// The steps.
    pub preset: Preset,
    /// Height and width of the result, in pixels.
    pub size: (usize, usize),
    /// Subtracted from each channel, of values in 0..1.
    pub mean: [f32; 3],
    /// Each channel is divided by it.
    pub std: [f32; 3],
    /// The resize kernel.
    pub interpolation: Interpolation,
    /// Share of the image's area that a random resized crop takes.
    pub scale: (f64, f64),
    /// Aspect ratio (width / height) of a random resized crop.
    pub ratio: (f64, f64),
    /// Probability of a horizontal flip.
    pub hflip: f64,
    /// Black border before the random crop of [`Preset::Cifar`], in pixels.
    pub padding: u32,
}

/// The preparation of images to evaluate: resize so that the image just covers `size / crop_pct`, then the centre.
#[derive(Debug, Clone, PartialEq)]
pub struct EvalPlan {
    /// Height and width of the result, in pixels.
    pub size: (usize, usize),
    /// Share of the resized image's shorter side that is kept, in (0, 1].
    pub crop_pct: f64,
    /// The resize kernel.
    pub interpolation: Interpolation,
    /// Subtracted from each channel, of values in 0..1.
    pub mean: [f32; 3],
    /// Each channel is divided by it.
    pub std: [f32; 3],
}

/// A plan that cannot be carried out, or an image that it does not fit.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AugmentError {
    /// A value out of range.
    #[error("`{key}` is {value}: expected {expected}")]
    Plan {
        /// The value's key.
        key: &'static str,
        /// The value.
        value: String,
        /// What is allowed.
        expected: &'static str,
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
    steps: Steps,
    width: u32,
    height: u32,
    filter: FilterType,
    /// Normalised value of each level of each channel: one division per level, not per pixel.
    levels: Vec<[f32; 3]>,
}

#[derive(Debug, Clone)]
enum Steps {
    Train(AugmentPlan),
    Eval { crop_pct: f64 },
}

impl Transform {
    /// The transform of training images.
    ///
    /// # Errors
    ///
    /// [`AugmentError::Plan`] if a value makes no sense.
    pub fn train(plan: AugmentPlan) -> Result<Self, AugmentError> {
        let ordered = |(low, high): (f64, f64)| low > 0.0 && low <= high && high.is_finite();
        let refuse = |key, value, expected| {
            Err(AugmentError::Plan {
                key,
                value,
                expected,
            })
        };
        if !(ordered(plan.scale) && plan.scale.1 <= 1.0) {
            let value = format!("{:?}", plan.scale);
            return refuse("augment.scale", value, "0 < low <= high <= 1");
        }
        if !ordered(plan.ratio) {
            let value = format!("{:?}", plan.ratio);
            return refuse("augment.ratio", value, "0 < low <= high");
        }
        if !(0.0..=1.0).contains(&plan.hflip) {
            return refuse("augment.hflip", plan.hflip.to_string(), "a probability");
        }
        if plan.padding > 65_535 {
            let value = plan.padding.to_string();
            return refuse("augment.padding", value, "at most 65535 pixels");
        }
        let (size, mean, std, interpolation) = (plan.size, plan.mean, plan.std, plan.interpolation);
        Self::new(Steps::Train(plan), size, mean, std, interpolation)
    }

    /// The transform of images to evaluate.
    ///
    /// # Errors
    ///
    /// [`AugmentError::Plan`] if a value makes no sense.
    pub fn evaluation(plan: &EvalPlan) -> Result<Self, AugmentError> {
        let crop_pct = plan.crop_pct;
        if !(crop_pct > 0.0 && crop_pct <= 1.0) {
            return Err(AugmentError::Plan {
                key: "augment.crop_pct",
                value: crop_pct.to_string(),
                expected: "a share in (0, 1]",
            });
        }
        let steps = Steps::Eval { crop_pct };
        Self::new(steps, plan.size, plan.mean, plan.std, plan.interpolation)
    }

    fn new(
        steps: Steps,
        size: (usize, usize),
        mean: [f32; 3],
        std: [f32; 3],
        interpolation: Interpolation,
    ) -> Result<Self, AugmentError> {
        let side = |pixels: usize| match u32::try_from(pixels) {
            Ok(side @ 1..=65_535) => Ok(side),
            _ => Err(AugmentError::Plan {
                key: "model.img_size",
                value: pixels.to_string(),
                expected: "1 to 65535 pixels",
            }),
        };
        if !(std.iter().all(|s| s.is_finite() && *s > 0.0) && mean.iter().all(|m| m.is_finite())) {
            return Err(AugmentError::Plan {
                key: "augment.mean` and `augment.std",
                value: format!("{mean:?} and {std:?}"),
                expected: "finite numbers, each `std` above 0",
            });
        }
        let [r, g, b] = [0, 1, 2]
            .map(|c: usize| move |level: u8| (f32::from(level) / 255.0 - mean[c]) / std[c]);
        Ok(Self {
            steps,
            height: side(size.0)?,
            width: side(size.1)?,
            filter: match interpolation {
                Interpolation::Bilinear => FilterType::Bilinear,
                Interpolation::Bicubic => FilterType::CatmullRom,
            },
            levels: (0..=255)
                .map(|level| [r(level), g(level), b(level)])
                .collect(),
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
        let plane = image.width() as usize * image.height() as usize;
        if out.len() != 3 * plane {
            return Err(AugmentError::Output {
                found: out.len(),
                expected: 3 * plane,
            });
        }
        let width = image.width() as usize;
        let (red, rest) = out.split_at_mut(plane);
        let (green, blue) = rest.split_at_mut(plane);
        let rows = red
            .chunks_exact_mut(width)
            .zip(green.chunks_exact_mut(width))
            .zip(blue.chunks_exact_mut(width))
            .zip(image.rows());
        for (((red, green), blue), row) in rows {
            for (x, Rgb([r, g, b])) in row.enumerate() {
                let x = if flip { width - 1 - x } else { x };
                red[x] = self.levels[usize::from(*r)][0];
                green[x] = self.levels[usize::from(*g)][1];
                blue[x] = self.levels[usize::from(*b)][2];
            }
        }
        Ok(())
    }

    /// The image at its final size, and whether it is to be flipped.
    fn pixels(&self, image: RgbImage, key: Key) -> Result<(RgbImage, bool), AugmentError> {
        if image.width() == 0 || image.height() == 0 {
            return Err(AugmentError::Empty);
        }
        let size = (self.width, self.height);
        match &self.steps {
            Steps::Eval { crop_pct } => {
                let covering = cover(image.dimensions(), size, *crop_pct);
                let crop = center_crop(covering, size);
                Ok((resize_part(image, covering, crop, self.filter)?, false))
            }
            Steps::Train(plan) => {
                let mut rng = key.named("crop").rng();
                let image = match plan.preset {
                    Preset::Imagenet => {
                        let crop = random_resized_crop(
                            image.dimensions(),
                            plan.scale,
                            plan.ratio,
                            &mut rng,
                        );
                        // Cut before the resize: its kernel must not see pixels outside of the crop.
                        resize(cut(image, crop), size, self.filter)?
                    }
                    Preset::Cifar => {
                        let image = resize(image, size, self.filter)?;
                        let left = rng.random_range(0..=2 * plan.padding);
                        let top = rng.random_range(0..=2 * plan.padding);
                        padded_crop(&image, plan.padding, left, top)
                    }
                    Preset::None => resize(image, size, self.filter)?,
                };
                let flip = key.named("hflip").rng().random::<f64>() < plan.hflip;
                Ok((image, flip))
            }
        }
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
#[path = "transform_tests.rs"]
mod tests;
