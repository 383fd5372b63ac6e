//! Automatic augmentation with timm's policy strings: RandAugment, AugMix, AutoAugment and 3-Augment (`timm/data/auto_augment.py`).
//!
//! A [`Policy`] is parsed from a string. The draws for one image are a [`Drawn`], a list of operations with their magnitudes.
//! Applying it draws no further random numbers, so tests can substitute timm's.

mod augmix;
mod grammar;
mod op;
mod rand_augment;
mod sub_policies;

use image::RgbImage;
use kvt_ops::Key;

pub use augmix::{AugMix, Mixture};
pub use grammar::AutoError;
pub use op::{Context, Draw, Op, OpName};
pub use rand_augment::RandAugment;
pub use sub_policies::SubPolicies;

use crate::augment::AugmentConfig;

/// The choice of operations for an image.
#[derive(Debug, Clone, PartialEq)]
pub enum Policy {
    /// Some operations of a set, all with the same magnitude.
    Rand(RandAugment),
    /// A mixture of chains of operations.
    AugMix(AugMix),
    /// One of a list of short fixed chains: AutoAugment and 3-Augment.
    SubPolicies(SubPolicies),
}

/// The draws for one image.
#[derive(Debug, Clone, PartialEq)]
pub enum Drawn {
    /// A sequence of operations.
    Chain(Vec<Draw>),
    /// Several chains, mixed.
    Mixture(Mixture),
}

/// A policy and the image properties that its operations need.
#[derive(Debug, Clone, PartialEq)]
pub struct AutoAugment {
    policy: Policy,
    context: Context,
}

impl AutoAugment {
    /// The policy of `augment.auto`, or `None` if it is empty.
    ///
    /// # Errors
    /// If the string does not follow timm's grammar.
    pub fn new(config: &AugmentConfig) -> Result<Option<Self>, AutoError> {
        if config.auto.is_empty() {
            return Ok(None);
        }
        let policy: Policy = config.auto.parse()?;
        let mut context = Context::new(config);
        if matches!(policy, Policy::AugMix(_)) {
            context.translate_share = 0.3;
        }
        Ok(Some(Self { policy, context }))
    }

    /// Draws for one image and applies the result.
    #[must_use]
    pub fn apply(&self, image: RgbImage, key: Key) -> RgbImage {
        self.policy.draw(key).apply(image, &self.context)
    }
}

impl Policy {
    /// Draws for one image.
    pub fn draw(&self, key: Key) -> Drawn {
        let rng = &mut key.rng();
        match self {
            Self::Rand(policy) => Drawn::Chain(policy.draw(rng)),
            Self::AugMix(policy) => Drawn::Mixture(policy.draw(rng)),
            Self::SubPolicies(policy) => Drawn::Chain(policy.draw(rng)),
        }
    }
}

impl Drawn {
    /// Applies the operations to an image.
    #[must_use]
    pub fn apply(&self, image: RgbImage, context: &Context) -> RgbImage {
        match self {
            Self::Chain(draws) => op::apply_all(draws, image, context),
            Self::Mixture(mixture) => mixture.apply(&image, context),
        }
    }
}

#[cfg(test)]
pub(super) mod golden;
#[cfg(test)]
mod tests;
