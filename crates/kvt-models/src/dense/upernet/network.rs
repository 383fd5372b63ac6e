//! The network: a pyramid and its heads, with names as in mmsegmentation's files.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use kvt_ops::{Key, Phase};

use super::{FcnHead, UperHead, UperNetConfig};
use crate::dense::{OnPyramid, Pyramid};
use crate::error::ModelError;
use crate::layers::Init;

/// A backbone's maps, a decode head and, for training, an auxiliary head.
pub type UperNet = OnPyramid<UperNetHeads>;

/// The heads of a [`UperNet`].
#[derive(Module, Debug)]
pub struct UperNetHeads {
    decode_head: UperHead,
    auxiliary_head: Option<FcnHead>,
    /// The map that the auxiliary head reads, counted from 1.
    #[module(skip)]
    aux_stage: usize,
}

/// The logits of a batch of images, f32.
#[derive(Clone, Debug)]
pub struct SegmentLogits {
    /// `[batch, num_classes, height / 4, width / 4]`.
    pub main: Tensor<4>,
    /// Those of the auxiliary head, `[batch, num_classes, height / 16, width / 16]` for stage 3; only in training.
    pub auxiliary: Option<Tensor<4>>,
}

impl UperNet {
    /// New heads on a pyramid, with mmsegmentation's initialisation.
    ///
    /// # Errors
    ///
    /// Sizes that describe no heads, or no heads for this pyramid.
    pub fn new(
        pyramid: Pyramid,
        config: &UperNetConfig,
        device: &Device,
        key: Key,
    ) -> Result<Self, ModelError> {
        let maps = pyramid.channels();
        config.validate(maps.len())?;
        let init = Init::new(device, key);
        let of_auxiliary = config.aux_stage.checked_sub(1);
        let of_auxiliary = of_auxiliary.and_then(|stage| maps.get(stage));
        let auxiliary =
            |channels: &usize| FcnHead::new(&init.child("auxiliary_head"), *channels, config);
        let heads = UperNetHeads {
            decode_head: UperHead::new(&init.child("decode_head"), &maps, config),
            auxiliary_head: of_auxiliary.map(auxiliary),
            aux_stage: config.aux_stage,
        };
        Ok(Self { pyramid, heads })
    }

    /// The logits of images, `[batch, 3, height, width]`. The heads' products are in the precision of the backbone.
    ///
    /// # Panics
    ///
    /// On sizes that the pyramid refuses.
    pub fn forward(&self, images: Tensor<4>, phase: Phase) -> SegmentLogits {
        let maps = self.pyramid.forward(images, phase.named("backbone"));
        let precision = self.pyramid.backbone.precision();
        let UperNetHeads {
            decode_head,
            auxiliary_head,
            aux_stage,
        } = &self.heads;
        let auxiliary = auxiliary_head.as_ref().filter(|_| phase != Phase::Eval);
        let auxiliary = auxiliary.zip(maps.get(aux_stage.wrapping_sub(1)));
        let auxiliary = auxiliary
            .map(|(head, map)| head.forward(map.clone(), precision, phase.named("auxiliary_head")));
        SegmentLogits {
            main: decode_head.forward(&maps, precision, phase.named("decode_head")),
            auxiliary,
        }
    }
}
