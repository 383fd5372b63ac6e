//! What every family of models provides: two traits. All steps of adding one are in `CONTRIBUTING.md`.

use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use kvt_ops::{Key, Phase};

use crate::common::CommonConfig;
use crate::error::ModelError;
use crate::model::{Logits, Model};
use crate::overrides::ModelOverrides;
use crate::registry::ModelConfig;
use crate::summary::Summary;
use crate::weights::StateDict;

/// Does the same with any of the families: `each!(ModelConfig, self, config => config.name())`.
macro_rules! each {
    ($of:ident, $value:expr, $family:ident => $body:expr) => {
        match $value {
            $of::Deit($family) => $body,
            $of::Swin($family) => $body,
            $of::Pit($family) => $body,
            $of::Cvt($family) => $body,
        }
    };
}
pub(crate) use each;

/// The sizes and settings of a family.
pub(crate) trait Architecture: Sized + Into<ModelConfig> {
    /// The modules made from them.
    type Network: Network<Config = Self>;

    /// All named sizes: 1000 classes, no dropout, dense attention, as timm makes them.
    fn named() -> Vec<Self>;

    /// This configuration with some values replaced; not yet validated.
    fn with(self, overrides: &ModelOverrides) -> Result<Self, ModelError>;

    /// Refuses sizes that describe no model.
    fn validate(&self) -> Result<(), ModelError>;

    /// timm's name of the architecture; channels x depth stand in for a size it has no name for.
    fn name(&self) -> String;

    /// What every family has.
    fn common(&self) -> &CommonConfig;

    /// Size and cost, computed without building the model; meaningful for a valid configuration.
    fn summary(&self) -> Summary;
}

/// The modules of a family.
pub(crate) trait Network: Module + Into<Model> {
    /// What they are made from.
    type Config;

    /// What messages call the family.
    const FAMILY: &'static str;

    /// A parameter that only models of this family have.
    const MARK: &'static str;

    /// Last parts of the names of parameters that get no weight decay although they are no bias and
    /// have more than one dimension.
    const NO_WEIGHT_DECAY: &'static [&'static str];

    /// Names of the layers that turn features into class scores.
    const CLASSIFIERS: &'static [&'static str];

    /// A model of a valid configuration with the original's initialisation. The same key gives the same weights on every
    /// device.
    fn new(config: Self::Config, device: &Device, key: Key) -> Self;

    /// The configuration this model was made from.
    fn config(&self) -> &Self::Config;

    /// The logits of each head.
    ///
    /// # Shapes
    ///
    /// `[batch, in_chans, img_size, img_size]` to `[batch, num_classes]` per head.
    fn forward_heads(&self, images: Tensor<4>, phase: Phase) -> Logits;

    /// A weight of another image size (position embeddings, tables of relative positions) at the
    /// size of this model's parameter `name`; `None` where that cannot be done.
    fn resize(&self, _name: &str, _shape: &[usize], _weight: &TensorData) -> Option<TensorData> {
        None
    }

    /// The name of the parameter at a path of modules, where these differ.
    fn parameter_name(path: &str) -> String {
        path.to_owned()
    }

    /// The path of modules to the parameter of this name.
    fn parameter_path(name: &str) -> String {
        name.to_owned()
    }

    /// Whether weights carry the names of the original repository, where these are not timm's.
    fn is_official(_weights: &StateDict) -> bool {
        false
    }

    /// timm's name of a weight of the original repository.
    fn timm_name(official: &str) -> String {
        official.to_owned()
    }

    /// The original repository's name of a weight of timm's.
    fn official_name(timm: &str) -> String {
        timm.to_owned()
    }

    /// Whether a file may hold this although it is no weight: tables that a model computes itself.
    fn is_computed(_name: &str) -> bool {
        false
    }
}
