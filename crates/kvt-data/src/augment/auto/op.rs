//! timm's named operations, and the meaning of a magnitude for each.

use image::RgbImage;
use rand::{Rng, RngExt};
use rand_distr::{Distribution, StandardNormal};

use crate::augment::ops::Sampling;
use crate::augment::{AugmentConfig, Interpolation, ops};

/// The magnitude at which an argument has its full size.
const FULL: f64 = 10.0;

/// timm's names of operations. `Increasing`: the effect grows with the magnitude; without it, some effects become weaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "timm's names; `Draw::op` says what each does")]
pub enum OpName {
    AutoContrast,
    Equalize,
    Invert,
    Rotate,
    Posterize,
    PosterizeIncreasing,
    PosterizeOriginal,
    Solarize,
    SolarizeIncreasing,
    SolarizeAdd,
    Color,
    ColorIncreasing,
    Contrast,
    ContrastIncreasing,
    Brightness,
    BrightnessIncreasing,
    Sharpness,
    SharpnessIncreasing,
    ShearX,
    ShearY,
    TranslateXRel,
    TranslateYRel,
    Desaturate,
    GaussianBlur,
    GaussianBlurRand,
}

/// What operations need besides their magnitude: timm's `hparams`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Context {
    /// The interpolation of moved images.
    pub interpolation: Interpolation,
    /// The fill colour for pixels outside a moved image: the mean of the data.
    pub fill: [u8; 3],
    /// `TranslateXRel` and `TranslateYRel` at full magnitude, as a fraction of the side.
    pub translate_share: f64,
}

/// A drawn operation, with all of its random parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Draw {
    /// The operation.
    pub name: OpName,
    /// 0 to 10, or more if the policy allows it.
    pub magnitude: f64,
    /// Whether an operation with a direction is reversed.
    pub is_negative: bool,
    /// Whether a moved image is interpolated bilinearly, if the interpolation is random.
    pub is_bilinear: bool,
    /// The position of the radius of `GaussianBlurRand` between its minimum and its maximum, from 0 to 1.
    pub share: f64,
}

/// An operation with its arguments: the size of the effect, and the sampling of a moved image.
#[derive(Debug, Clone, Copy, PartialEq)]
#[expect(missing_docs, reason = "arguments of the functions of `ops`")]
pub enum Op {
    AutoContrast,
    Equalize,
    Invert,
    /// By degrees.
    Rotate(f64, Sampling),
    /// To a number of bits.
    Posterize(u32),
    /// From a threshold.
    Solarize(u32),
    /// By what is added.
    SolarizeAdd(u8),
    /// By a factor, as the next ones.
    Color(f64),
    Contrast(f64),
    Brightness(f64),
    Sharpness(f64),
    /// By a fraction of the colour circle. No policy has it.
    Hue(f64),
    /// By a matrix as that of [`ops::affine`], in which the shifts are fractions of the image's sides.
    Affine([f64; 6], Sampling),
    /// With a radius.
    GaussianBlur(f64),
}

/// The random variation of the magnitude.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Magnitude {
    /// The mean, or the maximum with uniform noise.
    pub(super) mean: f64,
    pub(super) noise: Noise,
    /// Upper limit.
    pub(super) max: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Noise {
    /// Normal with this standard deviation; 0 means no noise.
    Normal(f64),
    /// Uniform from 0 to the magnitude.
    Uniform,
}

impl Magnitude {
    /// A fixed magnitude of at most 10.
    pub(super) fn fixed(mean: f64) -> Self {
        Self {
            mean,
            noise: Noise::Normal(0.0),
            max: FULL,
        }
    }

    fn draw(self, rng: &mut impl Rng) -> f64 {
        let magnitude = match self.noise {
            Noise::Normal(std) => {
                let normal: f64 = StandardNormal.sample(rng);
                self.mean + std * normal
            }
            Noise::Uniform => self.mean * rng.random::<f64>(),
        };
        magnitude.clamp(0.0, self.max)
    }
}

impl Context {
    /// timm's settings: the mean of the data as fill colour, and shifts of up to 45 % of the image's side.
    pub fn new(config: &AugmentConfig) -> Self {
        Self {
            interpolation: config.interpolation,
            fill: config.mean_color().0,
            translate_share: 0.45,
        }
    }

    fn sampling(&self, is_bilinear: bool) -> Sampling {
        Sampling {
            is_bilinear: self.interpolation.is_bilinear(|| is_bilinear),
            fill: self.fill,
        }
    }
}

impl Draw {
    /// Draws whether `name` is applied, with probability `prob`, and its random parameters.
    pub(super) fn new(
        name: OpName,
        prob: f64,
        magnitude: Magnitude,
        rng: &mut impl Rng,
    ) -> Option<Self> {
        let is_applied = rng.random::<f64>() < prob;
        let draw = Self {
            name,
            magnitude: magnitude.draw(rng),
            is_negative: rng.random(),
            is_bilinear: rng.random(),
            share: rng.random(),
        };
        is_applied.then_some(draw)
    }

    /// The operation's arguments at this magnitude: timm's `LEVEL_TO_ARG`.
    pub fn op(&self, context: &Context) -> Op {
        let level = self.magnitude / FULL;
        let signed = |value: f64| if self.is_negative { -value } else { value };
        let sampling = context.sampling(self.is_bilinear);
        // 0.1 to 1.9, where 1 changes nothing: from one end to the other, or from the middle to one end.
        let enhance = level * 1.8 + 0.1;
        let increasing = (1.0 + signed(level * 0.9)).max(0.1);
        let between = |low: f64, high: f64| (low + (high - low) * level).clamp(low, high);
        let bits = (level * 4.0) as u32;
        let threshold = ((level * 256.0) as u32).min(256);
        let shear = signed(level * 0.3);
        let share = signed(level * context.translate_share);
        match self.name {
            OpName::AutoContrast => Op::AutoContrast,
            OpName::Equalize => Op::Equalize,
            OpName::Invert => Op::Invert,
            OpName::Rotate => Op::Rotate(signed(level * 30.0), sampling),
            OpName::Posterize => Op::Posterize(bits),
            OpName::PosterizeIncreasing => Op::Posterize(4_u32.saturating_sub(bits)),
            OpName::PosterizeOriginal => Op::Posterize(bits + 4),
            OpName::Solarize => Op::Solarize(threshold),
            OpName::SolarizeIncreasing => Op::Solarize(256 - threshold),
            OpName::SolarizeAdd => Op::SolarizeAdd(((level * 110.0) as u8).min(128)),
            OpName::Color => Op::Color(enhance),
            OpName::ColorIncreasing => Op::Color(increasing),
            OpName::Contrast => Op::Contrast(enhance),
            OpName::ContrastIncreasing => Op::Contrast(increasing),
            OpName::Brightness => Op::Brightness(enhance),
            OpName::BrightnessIncreasing => Op::Brightness(increasing),
            OpName::Sharpness => Op::Sharpness(enhance),
            OpName::SharpnessIncreasing => Op::Sharpness(increasing),
            // Shows at (x, y) what is `shear` y further right, and so on.
            OpName::ShearX => Op::Affine([1.0, shear, 0.0, 0.0, 1.0, 0.0], sampling),
            OpName::ShearY => Op::Affine([1.0, 0.0, 0.0, shear, 1.0, 0.0], sampling),
            OpName::TranslateXRel => Op::Affine([1.0, 0.0, share, 0.0, 1.0, 0.0], sampling),
            OpName::TranslateYRel => Op::Affine([1.0, 0.0, 0.0, 0.0, 1.0, share], sampling),
            OpName::Desaturate => Op::Color(1.0 - between(0.5, 1.0)),
            OpName::GaussianBlur => Op::GaussianBlur(between(0.1, 2.0)),
            OpName::GaussianBlurRand => {
                Op::GaussianBlur(0.1 + (2.0 * between(0.0, 1.0) - 0.1) * self.share)
            }
        }
    }
}

impl Op {
    /// Applies the operation to an image.
    #[must_use]
    pub fn apply(self, mut image: RgbImage) -> RgbImage {
        match self {
            Self::AutoContrast => ops::autocontrast(&mut image),
            Self::Equalize => ops::equalize(&mut image),
            Self::Invert => ops::invert(&mut image),
            Self::Posterize(bits) => ops::posterize(&mut image, bits),
            Self::Solarize(threshold) => ops::solarize(&mut image, threshold),
            Self::SolarizeAdd(add) => ops::solarize_add(&mut image, add),
            Self::Color(factor) => ops::color(&mut image, factor),
            Self::Contrast(factor) => ops::contrast(&mut image, factor),
            Self::Brightness(factor) => ops::brightness(&mut image, factor),
            Self::Sharpness(factor) => ops::sharpness(&mut image, factor),
            Self::Hue(turns) => ops::hue(&mut image, turns),
            Self::GaussianBlur(radius) => ops::gaussian_blur(&mut image, radius),
            Self::Rotate(degrees, sampling) => return ops::rotate(&image, degrees, sampling),
            Self::Affine([a, b, across, d, e, down], sampling) => {
                let across = across * f64::from(image.width());
                let down = down * f64::from(image.height());
                return ops::affine(&image, [a, b, across, d, e, down], sampling);
            }
        }
        image
    }
}

/// Applies drawn operations in order.
pub(super) fn apply_all(draws: &[Draw], image: RgbImage, context: &Context) -> RgbImage {
    let one = |image, draw: &Draw| draw.op(context).apply(image);
    draws.iter().fold(image, one)
}
