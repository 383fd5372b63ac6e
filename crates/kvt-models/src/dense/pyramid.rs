//! A backbone whose maps are the input of a dense network.

use burn::module::{Module, ParamId};
use burn::nn::LayerNorm;
use burn::tensor::{Device, Tensor};
use kvt_ops::{Key, Phase, layer_norm};

use super::{WindowPadding, state};
use crate::backbone::{Ask, Backbone};
use crate::error::ModelError;
use crate::family::families::ModelConfig;
use crate::family::{Dense, DenseFamily, Family};
use crate::layers::Init;
use crate::model::{Model, Parameter};
use crate::network::Network;
use crate::precision::Precision;
use crate::weights::{LoadOptions, LoadReport, LoadRow, Misfit, Outcome, StateDict, WeightsError};

/// The maps of a pyramid.
const MAPS: usize = 4;
/// The prefix of all names in files.
pub(super) const BACKBONE: &str = "backbone.";
/// How the names of the maps' norms begin, after that of the backbone.
const MAP_NORMS: &str = "norm";
/// Parameters whose names contain one of these do not decay in the recipes of Swin and of Twins. Biases and batch norms do.
const UNDECAYED: [&str; 4] = [
    "norm",
    "relative_position_bias_table",
    "absolute_pos_embed",
    "pos_block",
];
/// The norm of a classifier's last map, which dense networks do not use.
const FINAL_NORM: &str = "norm.";

/// The maps of the four stages of a backbone, each after a layer norm of its own.
///
/// As in the official dense networks, a Swin cuts its maps into windows in another order than as a classifier, and
/// images of any size are taken: Swin pads them with zeros to whole patches, Twins drops what does not fill a patch.
#[derive(Module, Debug)]
pub struct Pyramid {
    /// The model whose backbone makes the maps. Its classifier and its last norm are not used, not trained and not
    /// saved.
    pub backbone: Model,
    norms: Vec<LayerNorm>,
    #[module(skip)]
    family: DenseFamily,
}

/// What a file of weights for a [`Pyramid`] comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DenseKind {
    /// A classifier, which has no norms of the maps: they stay as initialised.
    Classifier,
    /// A dense network.
    Network,
}

impl ModelConfig {
    /// This configuration as the backbone of a dense network. Its classifier, which is not used, has one class.
    ///
    /// # Errors
    ///
    /// [`ModelError::NoPyramid`] for a model without four maps.
    pub fn dense(&self, padding: WindowPadding) -> Result<Self, ModelError> {
        self.dense_family()?;
        let mut dense = self.clone();
        let common = dense.common_mut();
        (common.num_classes, common.dense) = (1, Some(padding));
        dense.validate()?;
        Ok(dense)
    }

    /// The channels of the maps of a model with a pyramid, the finest first.
    ///
    /// # Errors
    ///
    /// [`ModelError::NoPyramid`] for a model without four maps.
    pub fn pyramid_channels(&self) -> Result<Vec<usize>, ModelError> {
        self.dense_family()?;
        Ok(self.of_family().map_channels())
    }

    /// The minimum side of an image in pixels of which a model with a pyramid makes four maps.
    ///
    /// # Errors
    ///
    /// [`ModelError::NoPyramid`] for a model without four maps.
    pub fn pyramid_least_side(&self) -> Result<usize, ModelError> {
        self.dense_family()?;
        let [least, _] = self.of_family().input_sides();
        Ok(least)
    }

    /// The properties of dense networks of this model.
    pub(crate) fn dense_family(&self) -> Result<DenseFamily, ModelError> {
        let without = |maps: String| ModelError::NoPyramid {
            model: self.name(),
            maps,
        };
        match self.family().dense {
            Dense::Lacks(maps) => Err(without(maps.to_owned())),
            Dense::Pyramid(family) => match self.summary().stages.len() {
                MAPS => Ok(family),
                1 => Err(without("one map".to_owned())),
                stages => Err(without(format!("{stages} maps"))),
            },
        }
    }
}

impl Pyramid {
    /// The backbone of a model, with new norms: of unit weight and zero bias, as in the official networks.
    ///
    /// # Errors
    ///
    /// [`ModelError::NoPyramid`] for a model without four maps; a configuration that describes no model.
    pub fn new(
        config: &ModelConfig,
        padding: WindowPadding,
        device: &Device,
        key: Key,
    ) -> Result<Self, ModelError> {
        let family = config.dense_family()?;
        let backbone = config.dense(padding)?.init(device, key)?;
        let init = Init::new(device, key);
        let norms = config.of_family().map_channels().into_iter();
        Ok(Self {
            norms: norms
                .map(|dim| init.layer_norm(dim, family.epsilon))
                .collect(),
            backbone,
            family,
        })
    }

    /// The maps of the stages in f32, whatever the precision, from a quarter of the image to a thirty-second.
    ///
    /// # Shapes
    ///
    /// `[batch, in_chans, height, width]` to `[batch, channels, rows, columns]` for each map.
    ///
    /// # Panics
    ///
    /// On sizes that [`check_size`](Self::check_size) refuses.
    pub fn forward(&self, images: Tensor<4>, phase: Phase) -> Vec<Tensor<4>> {
        let end = |stage: usize, tokens| self.normalise(stage, tokens);
        let in_stream = self.family.in_stream;
        let ask = Ask {
            maps: true,
            stage_end: in_stream.then_some(&end),
            precision: self.backbone.precision(),
            ..Ask::default()
        };
        let maps = self.backbone.backbone.features(images, &ask, phase).maps;
        if in_stream {
            return maps;
        }
        let normalise = |(stage, map): (usize, Tensor<4>)| {
            let tokens = self.normalise(stage, map.permute([0, 2, 3, 1]));
            tokens.permute([0, 3, 1, 2])
        };
        maps.into_iter().enumerate().map(normalise).collect()
    }

    /// The norm of a stage, over the last dimension.
    fn normalise<const D: usize>(&self, stage: usize, tokens: Tensor<D>) -> Tensor<D> {
        match self.norms.get(stage) {
            Some(norm) => layer_norm(norm, tokens, self.family.epsilon),
            None => tokens,
        }
    }

    /// Channels of the maps.
    pub fn channels(&self) -> Vec<usize> {
        let norms = self.norms.iter();
        norms.map(|norm| norm.gamma.dims()[0]).collect()
    }

    /// This pyramid with products of the backbone in another type.
    #[must_use]
    pub fn with_precision(self, precision: Precision) -> Self {
        Self {
            backbone: self.backbone.with_precision(precision),
            ..self
        }
    }

    /// Refuses images of a size, `[height, width]` in pixels, from which some map cannot be made.
    ///
    /// # Errors
    ///
    /// [`ModelError::ImageSize`].
    pub fn check_size(&self, size: [usize; 2]) -> Result<(), ModelError> {
        self.backbone.check_size(size)
    }

    /// Every trainable parameter under its name in files, in the order of the modules.
    pub fn parameters(&self) -> Vec<Parameter> {
        let backbone = self.backbone.parameters().into_iter();
        let used = backbone.filter(|parameter| self.is_used(&parameter.name));
        let used = used.map(|parameter| parameter.within(BACKBONE));
        let norms = state::parameters(&self.norms, &self.norm_names());
        used.chain(norms).collect()
    }

    /// Whether weight decay applies to a parameter of a network on this pyramid in the recipes of Swin and of Twins, which decide by
    /// the name: biases and batch norms decay, layer norms and positions do not.
    pub fn decays_by_name(&self, parameter: &Parameter) -> bool {
        !UNDECAYED.iter().any(|part| parameter.name.contains(part))
    }

    /// Whether it does by the rule of the backbone's family ([`Model::decays`]); of what is behind the maps, to parameters with more
    /// than one dimension.
    pub fn decays(&self, parameter: &Parameter) -> bool {
        match of_model(parameter) {
            Some(parameter) => self.backbone.decays(&parameter),
            None => parameter.shape.len() > 1,
        }
    }

    /// The layer of such a parameter for layer-wise learning rates: that of the backbone, where the norms of the maps and what is behind
    /// them are the last.
    pub fn layer(&self, parameter: &Parameter) -> usize {
        match of_model(parameter) {
            Some(parameter) => self.backbone.layer(&parameter),
            None => self.backbone.layers().saturating_sub(1),
        }
    }

    /// The parameters of the backbone that are not used, and that training does not change.
    pub fn frozen(&self) -> Vec<ParamId> {
        let backbone = self.backbone.parameters().into_iter();
        let unused = backbone.filter(|parameter| !self.is_used(&parameter.name));
        unused.map(|parameter| parameter.id).collect()
    }

    /// The content of a file of weights: `backbone.` and timm's names, and the norms under the official names.
    ///
    /// # Errors
    ///
    /// The device cannot be read.
    pub fn state_dict(&self) -> Result<StateDict, WeightsError> {
        let of_file = |name: &str| self.is_used(name).then(|| format!("{BACKBONE}{name}"));
        let backbone = StateDict::from_model(&self.backbone)?.part(of_file);
        let norms = state::state_dict(&self.norms, &self.norm_names())?;
        Ok(backbone.into_iter().chain(norms).collect())
    }

    /// This pyramid with weights under the names of [`state_dict`](Self::state_dict), and the outcome of every key
    /// that begins with `backbone.`.
    ///
    /// # Errors
    ///
    /// Missing keys, other shapes, and weights that are not floating point.
    pub fn load(
        mut self,
        state: &StateDict,
        kind: DenseKind,
    ) -> Result<(Self, LoadReport), WeightsError> {
        let without = match kind {
            DenseKind::Classifier => Outcome::Reset,
            DenseKind::Network => Outcome::Missing,
        };
        let norm_names = self.norm_names();
        let (norms, rows) = state::load(self.norms, &norm_names, state, without)?;
        self.norms = norms;
        let is_norm = |name: &str| rows.iter().any(|row| row.name == name);
        let weights = state.part(|name| {
            let own = name.strip_prefix(BACKBONE).filter(|_| !is_norm(name));
            own.map(str::to_owned)
        });
        let options = LoadOptions {
            partial: true,
            new_head: true,
            ..LoadOptions::default()
        };
        let (backbone, report) = self.backbone.load(&weights, options)?;
        self.backbone = backbone;
        let of_backbone = report
            .rows
            .into_iter()
            .filter(|row| self.is_used(&row.name));
        let of_backbone = of_backbone.map(|row| LoadRow {
            name: format!("{BACKBONE}{}", row.name),
            ..row
        });
        let report = LoadReport {
            rows: of_backbone.chain(rows).collect(),
        };
        if !report.fits() {
            return Err(WeightsError::Incompatible {
                report,
                misfit: Misfit::Others,
            });
        }
        Ok((self, report))
    }

    /// Whether a parameter of the model, by its name there, takes part in the maps.
    fn is_used(&self, name: &str) -> bool {
        is_used(self.backbone.config.family(), name)
    }

    /// How the names of the norms begin in files, before their numbers.
    fn norm_names(&self) -> String {
        format!("{BACKBONE}{}", self.family.norms)
    }
}

/// A parameter of a network as the backbone's model names it; `None` for those of the norms and of everything behind them.
fn of_model(parameter: &Parameter) -> Option<Parameter> {
    let name = parameter.name.strip_prefix(BACKBONE)?;
    (!name.starts_with(MAP_NORMS)).then(|| Parameter {
        name: name.to_owned(),
        ..parameter.clone()
    })
}

/// Whether a parameter of a model, by its name there, takes part in the maps.
pub(super) fn is_used(family: &Family, name: &str) -> bool {
    !family.is_of_head(name) && !name.starts_with(FINAL_NORM)
}
