//! AugMix (Hendrycks et al. 2019) as in timm.

use image::RgbImage;
use rand::{Rng, RngExt};
use rand_distr::{Distribution, Gamma};

use super::op::{Context, Draw, Magnitude, OpName, apply_all};
use crate::augment::ops;

/// Chains of operations on the same image, mixed with each other and with the image.
#[derive(Debug, Clone, PartialEq)]
pub struct AugMix {
    /// Number of chains.
    pub(super) width: usize,
    /// Operations per chain; `None` means one to three.
    pub(super) depth: Option<usize>,
    pub(super) magnitude: Magnitude,
    /// Whether each chain is blended into the image in turn: faster, with a slightly different mixture.
    pub(super) is_blended: bool,
    /// Its draws, divided by their sum, are the shares of the chains (Dirichlet) and of the mixture (Beta).
    pub(super) gamma: Gamma<f64>,
}

/// The AugMix draws for one image.
#[derive(Debug, Clone, PartialEq)]
pub struct Mixture {
    /// Each chain and its share of the mixture; the shares add up to 1.
    pub chains: Vec<(f32, Vec<Draw>)>,
    /// The mixture's share of the result; the rest is the image.
    pub share: f32,
    /// Whether each chain is blended into the image in turn.
    pub is_blended: bool,
}

/// The operations of the chains.
pub(super) const NAMES: [OpName; 13] = [
    OpName::AutoContrast,
    OpName::ColorIncreasing,
    OpName::ContrastIncreasing,
    OpName::BrightnessIncreasing,
    OpName::SharpnessIncreasing,
    OpName::Equalize,
    OpName::Rotate,
    OpName::PosterizeIncreasing,
    OpName::SolarizeIncreasing,
    OpName::ShearX,
    OpName::ShearY,
    OpName::TranslateXRel,
    OpName::TranslateYRel,
];

impl AugMix {
    /// Draws the shares from Dirichlet(alpha, ...), the mixture's share from Beta(alpha, alpha), and operations uniformly with replacement.
    pub(super) fn draw(&self, rng: &mut impl Rng) -> Mixture {
        let weights: Vec<f64> = (0..self.width).map(|_| self.gamma.sample(rng)).collect();
        let total: f64 = weights.iter().sum();
        let (mixed, plain) = (self.gamma.sample(rng), self.gamma.sample(rng));
        let chain = |weight| {
            let depth = self.depth.unwrap_or_else(|| rng.random_range(1..=3));
            let one = |_| {
                let name = NAMES[rng.random_range(0..NAMES.len())];
                Draw::new(name, 1.0, self.magnitude, rng)
            };
            (
                (weight / total) as f32,
                (0..depth).filter_map(one).collect(),
            )
        };
        Mixture {
            chains: weights.into_iter().map(chain).collect(),
            share: (mixed / (mixed + plain)) as f32,
            is_blended: self.is_blended,
        }
    }
}

impl Mixture {
    /// Mixes in `f32` and truncates, as timm does.
    #[must_use]
    pub fn apply(&self, image: &RgbImage, context: &Context) -> RgbImage {
        if self.is_blended {
            return self.apply_blended(image, context);
        }
        let mut sums = vec![0.0_f32; image.len()];
        for (weight, draws) in &self.chains {
            let chain = apply_all(draws, image.clone(), context);
            for (sum, value) in sums.iter_mut().zip(chain.iter()) {
                *sum += weight * f32::from(*value);
            }
        }
        let mut mixed = image.clone();
        for (value, sum) in mixed.iter_mut().zip(sums) {
            *value = sum as u8;
        }
        ops::blend(image, &mut mixed, self.share);
        mixed
    }

    fn apply_blended(&self, image: &RgbImage, context: &Context) -> RgbImage {
        // The share of each chain once the chains after it have been blended in.
        let mut rest = 1.0;
        let mut shares: Vec<f32> = self
            .chains
            .iter()
            .rev()
            .map(|(weight, _)| {
                let share = weight * self.share / rest;
                rest *= 1.0 - share;
                share
            })
            .collect();
        shares.reverse();
        let mut mixed = image.clone();
        for ((_, draws), share) in self.chains.iter().zip(shares) {
            let mut chain = apply_all(draws, image.clone(), context);
            ops::blend(&mixed, &mut chain, share);
            mixed = chain;
        }
        mixed
    }
}
