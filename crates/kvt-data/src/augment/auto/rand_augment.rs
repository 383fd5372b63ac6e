//! RandAugment (Cubuk et al. 2019) as in timm.

use rand::{Rng, RngExt};

use super::op::{Draw, Magnitude, OpName};

/// Some operations of a set, each applied with the same probability and the same magnitude, which can vary randomly.
#[derive(Debug, Clone, PartialEq)]
pub struct RandAugment {
    pub(super) layers: usize,
    pub(super) prob: f64,
    pub(super) magnitude: Magnitude,
    pub(super) set: Set,
}

/// The set from which operations are chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Set {
    /// All equally likely, with replacement.
    Uniform(&'static [OpName]),
    /// By weight, without replacement.
    Weighted(&'static [(OpName, f64)]),
}

impl Set {
    /// The maximum number of operations that can be chosen.
    pub(super) fn limit(self) -> Option<usize> {
        match self {
            Self::Uniform(_) => None,
            Self::Weighted(names) => Some(names.len()),
        }
    }

    fn choose(self, count: usize, rng: &mut impl Rng) -> Vec<OpName> {
        match self {
            Self::Uniform(names) => (0..count)
                .map(|_| names[rng.random_range(0..names.len())])
                .collect(),
            Self::Weighted(names) => {
                let mut left = names.to_vec();
                (0..count.min(left.len()))
                    .map(|_| {
                        let total: f64 = left.iter().map(|(_, weight)| weight).sum();
                        let mut place = rng.random::<f64>() * total;
                        let at = left.iter().position(|(_, weight)| {
                            place -= weight;
                            place < 0.0
                        });
                        // Rounding can lead to an index past the last one.
                        left.remove(at.unwrap_or(left.len() - 1)).0
                    })
                    .collect()
            }
        }
    }
}

impl RandAugment {
    /// The operations for one image, without those that are skipped at random.
    pub(super) fn draw(&self, rng: &mut impl Rng) -> Vec<Draw> {
        let names = self.set.choose(self.layers, rng);
        let draw = |name| Draw::new(name, self.prob, self.magnitude, rng);
        names.into_iter().filter_map(draw).collect()
    }
}

/// The set of `rand` without `inc1`.
pub(super) const PLAIN: Set = Set::Uniform(&[
    OpName::AutoContrast,
    OpName::Equalize,
    OpName::Invert,
    OpName::Rotate,
    OpName::Posterize,
    OpName::Solarize,
    OpName::SolarizeAdd,
    OpName::Color,
    OpName::Contrast,
    OpName::Brightness,
    OpName::Sharpness,
    OpName::ShearX,
    OpName::ShearY,
    OpName::TranslateXRel,
    OpName::TranslateYRel,
]);

/// The set of `rand` with `inc1`.
pub(super) const INCREASING: Set = Set::Uniform(&[
    OpName::AutoContrast,
    OpName::Equalize,
    OpName::Invert,
    OpName::Rotate,
    OpName::PosterizeIncreasing,
    OpName::SolarizeIncreasing,
    OpName::SolarizeAdd,
    OpName::ColorIncreasing,
    OpName::ContrastIncreasing,
    OpName::BrightnessIncreasing,
    OpName::SharpnessIncreasing,
    OpName::ShearX,
    OpName::ShearY,
    OpName::TranslateXRel,
    OpName::TranslateYRel,
]);

/// The set of `t3a`.
pub(super) const THREE: Set = Set::Uniform(&[
    OpName::SolarizeIncreasing,
    OpName::Desaturate,
    OpName::GaussianBlur,
]);

/// The set of `t3aw`.
pub(super) const THREE_WEIGHTED: Set = Set::Weighted(&[
    (OpName::SolarizeIncreasing, 6.0),
    (OpName::Desaturate, 6.0),
    (OpName::GaussianBlur, 6.0),
    (OpName::Rotate, 3.0),
    (OpName::ShearX, 2.0),
    (OpName::ShearY, 2.0),
    (OpName::PosterizeIncreasing, 1.0),
    (OpName::AutoContrast, 1.0),
    (OpName::ColorIncreasing, 1.0),
    (OpName::SharpnessIncreasing, 1.0),
    (OpName::ContrastIncreasing, 1.0),
    (OpName::BrightnessIncreasing, 1.0),
    (OpName::Equalize, 1.0),
    (OpName::Invert, 1.0),
]);

/// The set of `tweights`.
pub(super) const WEIGHTED: Set = Set::Weighted(&[
    (OpName::Rotate, 3.0),
    (OpName::ShearX, 2.0),
    (OpName::ShearY, 2.0),
    (OpName::TranslateXRel, 1.0),
    (OpName::TranslateYRel, 1.0),
    (OpName::ColorIncreasing, 0.25),
    (OpName::SharpnessIncreasing, 0.25),
    (OpName::AutoContrast, 0.25),
    (OpName::SolarizeIncreasing, 0.05),
    (OpName::SolarizeAdd, 0.05),
    (OpName::ContrastIncreasing, 0.05),
    (OpName::BrightnessIncreasing, 0.05),
    (OpName::Equalize, 0.05),
    (OpName::PosterizeIncreasing, 0.05),
    (OpName::Invert, 0.05),
]);
