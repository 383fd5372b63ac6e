//! Mixing the images of a micro-batch on the device, and the erasing that follows: for one label per image and for several.

use burn::tensor::Tensor;
use kvt_ops::Phase;

use crate::augment::{AugmentConfig, Normalization};
use crate::config::Plan;
use crate::recipe::Position;
use crate::recipe::mix::{MixConfig, MixOrder, draw, write_patches};

/// What is done to the images of a micro-batch before the model sees them.
#[derive(Clone, Debug)]
pub(super) struct Mixer {
    pub(super) mix: MixConfig,
    normalization: Normalization,
    /// The erasing that follows the mixing of images; `None` if images are erased before, or not at all.
    erasing: Option<AugmentConfig>,
}

impl Mixer {
    /// According to `[mix]` and `[augment]` of a plan.
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            mix: plan.mix.clone(),
            normalization: Normalization::from(&plan.augment),
            erasing: Some(plan.augment.clone())
                .filter(|augment| augment.erase > 0.0 && plan.mix.mixes_first()),
        }
    }

    /// The images of a micro-batch, mixed and erased according to the configuration, and the weight of each image's own
    /// target if they were mixed.
    pub(super) fn mixed(
        &self,
        images: Tensor<4>,
        at: Position,
        phase: Phase,
    ) -> (Tensor<4>, Option<Vec<f64>>) {
        let Phase::Train(key) = phase else {
            return (images, None);
        };
        let [count, _, height, width] = images.dims();
        let size = (height, width);
        let mut mixed = (images, None);
        if self.mix.is_on_in(at.epoch) {
            let mixing = draw(&self.mix, count, size, key.named("mix"));
            if !mixing.is_nothing() {
                let images = match self.mix.order {
                    MixOrder::EraseMix => mixing.images(mixed.0),
                    MixOrder::MixErase => mixing.pixels(mixed.0, &self.normalization),
                };
                mixed = (images, Some(mixing.own_shares(count, size)));
            }
        }
        if let Some(erasing) = &self.erasing {
            let key = key.named("erase");
            let patches = |number: usize| erasing.patches(size, key.child(number as u64));
            let patches: Vec<_> = (0..count).map(patches).collect();
            mixed.0 = write_patches(mixed.0, &patches);
        }
        mixed
    }
}
