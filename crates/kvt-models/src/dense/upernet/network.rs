//! The network: a pyramid and its heads, with names as in mmsegmentation's files.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use kvt_ops::{Key, Phase};

use super::{FcnHead, UperHead, UperNetConfig};
use crate::dense::{DenseKind, Pyramid, files, state};
use crate::error::ModelError;
use crate::layers::Init;
use crate::model::Parameter;
use crate::weights::{LoadReport, StateDict, WeightsError};

/// How the names of the heads begin in files.
const DECODE_HEAD: &str = "decode_head.";
const AUXILIARY_HEAD: &str = "auxiliary_head.";
/// How the names of the layers begin whose size is the number of classes.
pub const CLASSIFIERS: [&str; 2] = ["decode_head.conv_seg.", "auxiliary_head.conv_seg."];

/// A backbone's maps, a decode head and, for training, an auxiliary head.
#[derive(Module, Debug)]
pub struct UperNet {
    /// From images to maps.
    pub pyramid: Pyramid,
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
        Ok(Self {
            decode_head: UperHead::new(&init.child("decode_head"), &maps, config),
            auxiliary_head: of_auxiliary.map(auxiliary),
            pyramid,
            aux_stage: config.aux_stage,
        })
    }

    /// The logits of images, `[batch, 3, height, width]`. The heads' products are in the precision of the backbone.
    ///
    /// # Panics
    ///
    /// On sizes that the pyramid refuses.
    pub fn forward(&self, images: Tensor<4>, phase: Phase) -> SegmentLogits {
        let maps = self.pyramid.forward(images, phase.named("backbone"));
        let precision = self.pyramid.backbone.precision();
        let auxiliary = self
            .auxiliary_head
            .as_ref()
            .filter(|_| phase != Phase::Eval);
        let auxiliary = auxiliary.zip(maps.get(self.aux_stage.wrapping_sub(1)));
        let auxiliary = auxiliary
            .map(|(head, map)| head.forward(map.clone(), precision, phase.named("auxiliary_head")));
        SegmentLogits {
            main: self
                .decode_head
                .forward(&maps, precision, phase.named("decode_head")),
            auxiliary,
        }
    }

    /// Every parameter that is trained, in the order of the modules.
    pub fn parameters(&self) -> Vec<Parameter> {
        let auxiliary = self.auxiliary_head.iter();
        let auxiliary = auxiliary.flat_map(|head| state::parameters(head, AUXILIARY_HEAD));
        let all = self.pyramid.parameters().into_iter();
        all.chain(state::parameters(&self.decode_head, DECODE_HEAD))
            .chain(auxiliary)
            .collect()
    }

    /// The content of a file: parameters and running statistics.
    ///
    /// # Errors
    ///
    /// If the device cannot be read.
    pub fn state_dict(&self) -> Result<StateDict, WeightsError> {
        let mut parts = vec![
            self.pyramid.state_dict()?,
            state::state_dict(&self.decode_head, DECODE_HEAD)?,
        ];
        if let Some(head) = &self.auxiliary_head {
            parts.push(state::state_dict(head, AUXILIARY_HEAD)?);
        }
        Ok(parts.into_iter().flatten().collect())
    }

    /// This network with the weights of a file, and the names in the file that it does not have. The counters of batch norms, and
    /// what the backbone's classifier has, are passed over.
    ///
    /// # Errors
    ///
    /// If something is missing, has another shape or is not floating point: by name and shape, first of the backbone, then of
    /// both heads.
    pub fn load_state_dict(self, state: &StateDict) -> Result<(Self, Vec<String>), WeightsError> {
        let (pyramid, LoadReport { mut rows }) = self.pyramid.load(state, DenseKind::Network)?;
        let (decode_head, of_head) = state::load(self.decode_head, DECODE_HEAD, state)?;
        rows.extend(of_head);
        let mut auxiliary_head = None;
        if let Some(head) = self.auxiliary_head {
            let (head, of_head) = state::load(head, AUXILIARY_HEAD, state)?;
            rows.extend(of_head);
            auxiliary_head = Some(head);
        }
        let unused = files::unused(rows, state, &pyramid, &CLASSIFIERS)?;
        let loaded = Self {
            pyramid,
            decode_head,
            auxiliary_head,
            aux_stage: self.aux_stage,
        };
        Ok((loaded, unused))
    }
}
