//! The network: a pyramid and its heads, with names as in mmsegmentation's files.

use burn::module::{Module, ParamId};
use burn::nn::LayerNorm;
use burn::tensor::{Device, Tensor};
use kvt_ops::{Key, Phase};

use super::{FcnHead, UperHead, UperNetConfig};
use crate::dense::pyramid::Pyramid;
use crate::dense::state;
use crate::error::ModelError;
use crate::layers::Init;
use crate::model::{Model, Parameter};
use crate::weights::{LoadOptions, LoadReport, LoadRow, Misfit, Outcome, StateDict, WeightsError};

/// How the names of the parts begin in files.
const BACKBONE: &str = "backbone.";
const DECODE_HEAD: &str = "decode_head.";
const AUXILIARY_HEAD: &str = "auxiliary_head.";
/// The final norm of a backbone, of which dense networks make no use.
const FINAL_NORM: &str = "norm.";
/// Parameters whose names contain one of these do not decay in the recipes of Swin and of Twins. Biases and batch norms do.
const UNDECAYED: [&str; 4] = [
    "norm",
    "relative_position_bias_table",
    "absolute_pos_embed",
    "pos_block",
];
/// PyTorch's counter of batches, which nothing reads.
const COUNTER: &str = ".num_batches_tracked";

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
        let backbone = self.pyramid.backbone.parameters().into_iter();
        let backbone = backbone
            .filter(|parameter| !is_unused(&self.pyramid.backbone, &parameter.name))
            .map(|parameter| Parameter {
                name: format!("{BACKBONE}{}", parameter.name),
                ..parameter
            });
        let norms = self
            .norms()
            .flat_map(|(name, norm)| state::parameters(norm, &name));
        let auxiliary = self.auxiliary_head.iter();
        backbone
            .chain(norms)
            .chain(state::parameters(&self.decode_head, DECODE_HEAD))
            .chain(auxiliary.flat_map(|head| state::parameters(head, AUXILIARY_HEAD)))
            .collect()
    }

    /// Whether weight decay applies to a parameter in the recipes of Swin and of Twins, which decide by the name: biases and
    /// batch norms decay, layer norms and positions do not.
    pub fn decays(&self, parameter: &Parameter) -> bool {
        !UNDECAYED.iter().any(|part| parameter.name.contains(part))
    }

    /// Whether weight decay applies to a parameter by the rule of the backbone's family ([`Model::decays`]); of the heads, to
    /// those with more than one dimension.
    pub fn decays_by_family(&self, parameter: &Parameter) -> bool {
        match self.of_model(parameter) {
            Some(parameter) => self.pyramid.backbone.decays(&parameter),
            None => parameter.shape.len() > 1,
        }
    }

    /// The layer of a parameter for layer-wise learning rates: that of the backbone, where the norms of the maps and the heads
    /// are the last.
    pub fn layer(&self, parameter: &Parameter) -> usize {
        match self.of_model(parameter) {
            Some(parameter) => self.pyramid.backbone.layer(&parameter),
            None => self.layers().saturating_sub(1),
        }
    }

    /// The number of layers.
    pub fn layers(&self) -> usize {
        self.pyramid.backbone.layers()
    }

    /// What training does not change: the final norm and the classifier of the backbone's model.
    pub fn frozen(&self) -> Vec<ParamId> {
        let model = &self.pyramid.backbone;
        let unused = model.parameters().into_iter();
        unused
            .filter(|parameter| is_unused(model, &parameter.name))
            .map(|parameter| parameter.id)
            .chain(model.frozen())
            .collect()
    }

    /// The content of a file: parameters and running statistics.
    ///
    /// # Errors
    ///
    /// If the device cannot be read.
    pub fn state_dict(&self) -> Result<StateDict, WeightsError> {
        let model = &self.pyramid.backbone;
        let backbone = StateDict::from_model(model)?
            .into_iter()
            .filter(|(name, _)| !is_unused(model, name))
            .map(|(name, data)| (format!("{BACKBONE}{name}"), data));
        let mut all: StateDict = backbone.collect();
        let mut others = vec![state::state_dict(&self.decode_head, DECODE_HEAD)?];
        for (name, norm) in self.norms() {
            others.push(state::state_dict(norm, &name)?);
        }
        if let Some(head) = &self.auxiliary_head {
            others.push(state::state_dict(head, AUXILIARY_HEAD)?);
        }
        for (name, data) in others.into_iter().flatten() {
            all.insert(name, data);
        }
        Ok(all)
    }

    /// This network with the weights of a file, and the names in the file that it does not have. Batch norms' counters, and the
    /// backbone's final norm and classifier, are passed over.
    ///
    /// # Errors
    ///
    /// If something is missing, has another shape or is not floating point; all of it is listed.
    pub fn load_state_dict(
        mut self,
        state: &StateDict,
    ) -> Result<(Self, Vec<String>), WeightsError> {
        let mut rows = Vec::new();
        let model = self.pyramid.backbone;
        let norms: Vec<String> = (0..self.pyramid.norms.len())
            .map(|stage| format!("{BACKBONE}{}.", self.pyramid.norm_name(stage)))
            .collect();
        let is_of_norm = |name: &str| norms.iter().any(|norm| name.starts_with(norm));
        // What the network does not use is loaded from the model itself.
        let own = StateDict::from_model(&model)?;
        let own = own.into_iter().filter(|(name, _)| is_unused(&model, name));
        let given = state.iter().filter(|(name, _)| !is_of_norm(name));
        let given = given.filter_map(|(name, data)| {
            let name = name.strip_prefix(BACKBONE)?;
            (!is_unused(&model, name)).then(|| (name.to_owned(), data.clone()))
        });
        let weights: StateDict = own.chain(given).collect();
        let named = |row: LoadRow| LoadRow {
            name: format!("{BACKBONE}{}", row.name),
            ..row
        };
        let options = LoadOptions {
            strict: false,
            ..LoadOptions::default()
        };
        let (model, report) = model.load(&weights, options)?;
        rows.extend(report.rows.into_iter().map(named));
        self.pyramid.backbone = model;
        let mut loaded = Vec::new();
        for (norm, name) in self.pyramid.norms.into_iter().zip(&norms) {
            let (norm, of_norm) = state::load::<LayerNorm>(norm, name, state)?;
            rows.extend(of_norm);
            loaded.push(norm);
        }
        self.pyramid.norms = loaded;
        let (head, of_head) = state::load(self.decode_head, DECODE_HEAD, state)?;
        rows.extend(of_head);
        self.decode_head = head;
        if let Some(head) = self.auxiliary_head {
            let (head, of_head) = state::load(head, AUXILIARY_HEAD, state)?;
            rows.extend(of_head);
            self.auxiliary_head = Some(head);
        }
        let known: std::collections::BTreeSet<&str> = rows
            .iter()
            .filter(|row| row.outcome != Outcome::Unused)
            .map(|row| row.name.as_str())
            .collect();
        let unused: Vec<String> = state
            .iter()
            .map(|(name, _)| name)
            .filter(|name| !known.contains(name) && !name.ends_with(COUNTER))
            .map(str::to_owned)
            .collect();
        let report = LoadReport { rows };
        if !report.fits() {
            return Err(WeightsError::Incompatible {
                report,
                misfit: Misfit::Others,
            });
        }
        Ok((self, unused))
    }

    /// The norms of the maps, with how the names of their weights begin.
    fn norms(&self) -> impl Iterator<Item = (String, &LayerNorm)> {
        let norms = self.pyramid.norms.iter().enumerate();
        norms.map(|(stage, norm)| {
            let name = format!("{BACKBONE}{}.", self.pyramid.norm_name(stage));
            (name, norm)
        })
    }

    /// A parameter as the backbone's model names it; `None` for those of the norms and the heads.
    fn of_model(&self, parameter: &Parameter) -> Option<Parameter> {
        let name = parameter.name.strip_prefix(BACKBONE)?;
        let of_norm = self
            .norms()
            .any(|(norm, _)| parameter.name.starts_with(&norm));
        (!of_norm).then(|| Parameter {
            name: name.to_owned(),
            ..parameter.clone()
        })
    }
}

/// Whether a parameter of the backbone's model plays no part in a dense network.
fn is_unused(model: &Model, name: &str) -> bool {
    name.starts_with(FINAL_NORM) || model.is_of_head(name)
}
