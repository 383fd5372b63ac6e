//! Automatic augmentation with timm's policy strings: RandAugment, AugMix, AutoAugment and 3-Augment (`timm/data/auto_augment.py`).
//!
//! A [`Policy`] is parsed from a string. What it draws for one image is a list of operations with their magnitudes, or a [`Mixture`]
//! of several. Applying it draws no further random numbers, so tests can substitute timm's.

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
    /// If the string does not follow timm's grammar, or images have alpha.
    pub fn new(config: &AugmentConfig) -> Result<Option<Self>, AutoError> {
        if config.auto.is_empty() {
            return Ok(None);
        }
        // Pillow's `ImageOps` refuse them.
        if config.channels() == 4 {
            return Err(AutoError::of_rgba(&config.auto));
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
        let rng = &mut key.rng();
        let draws = match &self.policy {
            Policy::Rand(policy) => policy.draw(rng),
            Policy::AugMix(policy) => return policy.draw(rng).apply(&image, &self.context),
            Policy::SubPolicies(policy) => policy.draw(rng),
        };
        op::apply_all(&draws, image, &self.context)
    }
}

#[cfg(test)]
pub(super) mod golden;
#[cfg(test)]
mod tests;
