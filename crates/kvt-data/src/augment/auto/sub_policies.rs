//! AutoAugment (Cubuk et al. 2018) and 3-Augment (Touvron et al. 2022): one of a list of fixed chains.

use rand::{Rng, RngExt};

use super::op::OpName::*;
use super::op::{Draw, Magnitude, Noise, OpName};

/// An operation, its probability and its magnitude.
type Step = (OpName, f64, f64);

/// The policies by timm's names, with their posterize operation. The ones ending in `r` (for research) differ only in this operation.
pub(super) const POLICIES: [(&str, &[&[Step]], OpName); 5] = [
    ("original", ORIGINAL, PosterizeOriginal),
    ("originalr", ORIGINAL, PosterizeIncreasing),
    ("v0", V0, Posterize),
    ("v0r", V0, PosterizeIncreasing),
    ("3a", THREE_AUGMENT, Posterize),
];

/// One of a list of chains, all equally likely.
#[derive(Debug, Clone, PartialEq)]
pub struct SubPolicies {
    pub(super) chains: &'static [&'static [Step]],
    /// Replaces the posterize operations in the chains.
    pub(super) posterize: OpName,
    pub(super) noise: Noise,
}

impl SubPolicies {
    /// The steps of a chain in this policy.
    pub(super) fn steps(&self, chain: &[Step]) -> Vec<Step> {
        let steps = chain.iter().map(|&(name, prob, mean)| match name {
            Posterize | PosterizeOriginal => (self.posterize, prob, mean),
            _ => (name, prob, mean),
        });
        steps.collect()
    }

    /// The operations of one chain, without those that are skipped at random.
    pub(super) fn draw(&self, rng: &mut impl Rng) -> Vec<Draw> {
        let chain = self.steps(self.chains[rng.random_range(0..self.chains.len())]);
        let draw = |&(name, prob, mean): &Step| {
            let magnitude = Magnitude {
                noise: self.noise,
                ..Magnitude::fixed(mean)
            };
            Draw::new(name, prob, magnitude, rng)
        };
        chain.iter().filter_map(draw).collect()
    }
}

/// AutoAugment's policy for ImageNet, table 9 of the paper.
const ORIGINAL: &[&[Step]] = &[
    &[(PosterizeOriginal, 0.4, 8.0), (Rotate, 0.6, 9.0)],
    &[(Solarize, 0.6, 5.0), (AutoContrast, 0.6, 5.0)],
    &[(Equalize, 0.8, 8.0), (Equalize, 0.6, 3.0)],
    &[(PosterizeOriginal, 0.6, 7.0), (PosterizeOriginal, 0.6, 6.0)],
    &[(Equalize, 0.4, 7.0), (Solarize, 0.2, 4.0)],
    &[(Equalize, 0.4, 4.0), (Rotate, 0.8, 8.0)],
    &[(Solarize, 0.6, 3.0), (Equalize, 0.6, 7.0)],
    &[(PosterizeOriginal, 0.8, 5.0), (Equalize, 1.0, 2.0)],
    &[(Rotate, 0.2, 3.0), (Solarize, 0.6, 8.0)],
    &[(Equalize, 0.6, 8.0), (PosterizeOriginal, 0.4, 6.0)],
    &[(Rotate, 0.8, 8.0), (Color, 0.4, 0.0)],
    &[(Rotate, 0.4, 9.0), (Equalize, 0.6, 2.0)],
    &[(Equalize, 0.0, 7.0), (Equalize, 0.8, 8.0)],
    &[(Invert, 0.6, 4.0), (Equalize, 1.0, 8.0)],
    &[(Color, 0.6, 4.0), (Contrast, 1.0, 8.0)],
    &[(Rotate, 0.8, 8.0), (Color, 1.0, 2.0)],
    &[(Color, 0.8, 8.0), (Solarize, 0.8, 7.0)],
    &[(Sharpness, 0.4, 7.0), (Invert, 0.6, 8.0)],
    &[(ShearX, 0.6, 5.0), (Equalize, 1.0, 9.0)],
    &[(Color, 0.4, 0.0), (Equalize, 0.6, 3.0)],
    &[(Equalize, 0.4, 7.0), (Solarize, 0.2, 4.0)],
    &[(Solarize, 0.6, 5.0), (AutoContrast, 0.6, 5.0)],
    &[(Invert, 0.6, 4.0), (Equalize, 1.0, 8.0)],
    &[(Color, 0.6, 4.0), (Contrast, 1.0, 8.0)],
    &[(Equalize, 0.8, 8.0), (Equalize, 0.6, 3.0)],
];

/// The ImageNet policy of the EfficientNet code for TPUs.
const V0: &[&[Step]] = &[
    &[(Equalize, 0.8, 1.0), (ShearY, 0.8, 4.0)],
    &[(Color, 0.4, 9.0), (Equalize, 0.6, 3.0)],
    &[(Color, 0.4, 1.0), (Rotate, 0.6, 8.0)],
    &[(Solarize, 0.8, 3.0), (Equalize, 0.4, 7.0)],
    &[(Solarize, 0.4, 2.0), (Solarize, 0.6, 2.0)],
    &[(Color, 0.2, 0.0), (Equalize, 0.8, 8.0)],
    &[(Equalize, 0.4, 8.0), (SolarizeAdd, 0.8, 3.0)],
    &[(ShearX, 0.2, 9.0), (Rotate, 0.6, 8.0)],
    &[(Color, 0.6, 1.0), (Equalize, 1.0, 2.0)],
    &[(Invert, 0.4, 9.0), (Rotate, 0.6, 0.0)],
    &[(Equalize, 1.0, 9.0), (ShearY, 0.6, 3.0)],
    &[(Color, 0.4, 7.0), (Equalize, 0.6, 0.0)],
    &[(Posterize, 0.4, 6.0), (AutoContrast, 0.4, 7.0)],
    &[(Solarize, 0.6, 8.0), (Color, 0.6, 9.0)],
    &[(Solarize, 0.2, 4.0), (Rotate, 0.8, 9.0)],
    &[(Rotate, 1.0, 7.0), (TranslateYRel, 0.8, 9.0)],
    &[(ShearX, 0.0, 0.0), (Solarize, 0.8, 4.0)],
    &[(ShearY, 0.8, 0.0), (Color, 0.6, 4.0)],
    &[(Color, 1.0, 0.0), (Rotate, 0.6, 2.0)],
    &[(Equalize, 0.8, 4.0), (Equalize, 0.0, 8.0)],
    &[(Equalize, 1.0, 4.0), (AutoContrast, 0.6, 2.0)],
    &[(ShearY, 0.4, 7.0), (SolarizeAdd, 0.6, 7.0)],
    &[(Posterize, 0.8, 2.0), (Solarize, 0.6, 10.0)],
    &[(Solarize, 0.6, 8.0), (Equalize, 0.6, 1.0)],
    &[(Color, 0.8, 6.0), (Rotate, 0.4, 5.0)],
];

/// 3-Augment: solarise, greyscale or blur.
const THREE_AUGMENT: &[&[Step]] = &[
    &[(Solarize, 1.0, 5.0)],
    &[(Desaturate, 1.0, 10.0)],
    &[(GaussianBlurRand, 1.0, 10.0)],
];
