//! The network: a backbone's maps, the feature pyramid and the three heads.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use kvt_ops::{Key, Phase, Region};

use super::MaskRcnnConfig;
use super::box_head::{self, BoxHead, BoxOutput};
use super::fpn::Fpn;
use super::mask_head::{self, MaskHead};
use super::regions::align;
use super::rpn::{RpnHead, RpnOutput};
use crate::dense::{OnPyramid, Pyramid};
use crate::error::ModelError;
use crate::layers::Init;
use crate::precision::Precision;

/// A backbone's maps, a pyramid over them, and heads for proposals, boxes and masks.
///
/// Boxes, overlaps and the choice of what is trained on are computed on the host, from one read of the proposal network's output.
pub type MaskRcnn = OnPyramid<MaskRcnnHeads>;

/// The neck and the heads of a [`MaskRcnn`]; fields have the names of mmdetection's files.
#[derive(Module, Debug)]
pub struct MaskRcnnHeads {
    neck: Fpn,
    pub(super) rpn_head: RpnHead,
    roi_head: RoiHead,
    #[module(skip)]
    pub(super) config: MaskRcnnConfig,
}

/// The heads of regions.
#[derive(Module, Debug)]
struct RoiHead {
    bbox_head: BoxHead,
    mask_head: MaskHead,
}

impl MaskRcnn {
    /// A new neck and new heads on a pyramid, with mmdetection's initialisation.
    ///
    /// # Errors
    ///
    /// Sizes that describe no network.
    pub fn new(
        pyramid: Pyramid,
        config: MaskRcnnConfig,
        device: &Device,
        key: Key,
    ) -> Result<Self, ModelError> {
        config.validate()?;
        let init = Init::new(device, key);
        let roi = init.child("roi_head");
        let (channels, classes) = (config.channels, config.num_classes);
        let of_boxes = roi.child("bbox_head");
        let heads = MaskRcnnHeads {
            neck: Fpn::new(&init.child("neck"), &pyramid.channels(), channels),
            rpn_head: RpnHead::new(&init.child("rpn_head"), channels),
            roi_head: RoiHead {
                bbox_head: BoxHead::new(&of_boxes, channels, config.hidden, classes),
                mask_head: MaskHead::new(&roi.child("mask_head"), channels, classes),
            },
            config,
        };
        Ok(Self { pyramid, heads })
    }

    /// The maps of images, `[batch, 3, height, width]`, in f32.
    pub(super) fn maps(&self, images: Tensor<4>, phase: Phase) -> Vec<Tensor<4>> {
        self.pyramid.forward(images, phase.named("backbone"))
    }

    /// What every later step reads: the levels of the pyramid over maps, f32, and what the proposal network says of them.
    pub(super) fn look(&self, maps: &[Tensor<4>]) -> (Vec<Tensor<4>>, RpnOutput) {
        let precision = self.precision();
        let levels = self.heads.neck.forward(maps, precision);
        let rpn = self.heads.rpn_head.forward(&levels, precision);
        (levels, rpn)
    }

    /// The classes and boxes of regions, of which there is at least one.
    pub(super) fn classify(&self, levels: &[Tensor<4>], regions: &[Region]) -> BoxOutput {
        let contents = align(levels, regions, box_head::BINS);
        self.heads
            .roi_head
            .bbox_head
            .forward(contents, self.precision())
    }

    /// The logits of the masks of regions, of which there is at least one, `[regions, classes, 28, 28]`.
    pub(super) fn outline(&self, levels: &[Tensor<4>], regions: &[Region]) -> Tensor<4> {
        let contents = align(levels, regions, mask_head::BINS);
        self.heads
            .roi_head
            .mask_head
            .forward(contents, self.precision())
    }

    /// The type of all products, that of the backbone. Weights, levels of the pyramid, logits, boxes and losses are f32.
    fn precision(&self) -> Precision {
        self.pyramid.backbone.precision()
    }
}
