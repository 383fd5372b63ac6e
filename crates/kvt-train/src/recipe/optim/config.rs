//! `[optim]`: the settings of the optimizer.

use kvt_models::{Network, Parameter};

use crate::recipe::Clip;
use kvt_data::schema::section;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

section! {
    /// From gradients to an update.
    pub struct OptimConfig {
        /// The optimizer.
        pub name: OptimName = OptimName::Adamw;
        /// Base learning rate.
        pub lr: f64 = 5e-4, "x-range" = "(0, 1e30]";
        /// The learning rate is `lr * images per update / lr_batch`; 0 leaves `lr` as it is.
        pub lr_batch: usize = 512;
        /// Decay of the first and second moment of `adamw`, `lamb`, and the part of `muon` that is AdamW; of `lion`, the
        /// weight of the momentum in an update, and the decay of the momentum.
        pub betas: [f64; 2] = [0.9, 0.999],
            "x-range" = "[0, 1)", "x-default" = "`[0.9, 0.999]`, with lion `[0.9, 0.99]`";
        /// Added to the denominator of the update by `adamw`, `lamb` and `muon`.
        pub eps: f64 = 1e-8, "x-range" = "[1e-30, 1e30]", "x-default" = "`1e-8`, with lamb `1e-6`";
        /// Decay of the momentum of `sgd` and `muon`; `sgd` has none with 0.
        pub momentum: f64 = 0.9, "x-range" = "[0, 1)", "x-default" = "`0.9`, with muon `0.95`";
        /// Whether `sgd` and `muon` look ahead by Nesterov's momentum.
        pub nesterov: bool = true;
        /// Weight decay, decoupled from the gradient except with `sgd` and `lamb`.
        pub weight_decay: f64 = 0.05, "x-range" = "[0, 1e30]";
        /// The parameters that decay.
        pub decay: OptimDecay = OptimDecay::Family, "x-default" = "`\"family\"`, with `task = \"segment\"` or `\"detect\"` `\"names\"`";
        /// Factor of the learning rate from each layer of the model to the one below it; 1 is the same rate for all.
        pub layer_decay: f64 = 1.0, "x-range" = "(0, 1]";
        /// Largest global norm of the gradients; 0 does not clip. At most one `clip` key is above 0.
        pub clip_norm: f64 = 0.0, "x-range" = "[0, inf)";
        /// Largest absolute value of a gradient's numbers; 0 does not clip.
        pub clip_value: f64 = 0.0, "x-range" = "[0, inf)";
        /// Largest norm of each parameter's gradient by itself; 0 does not clip. DINO's is 3.0.
        pub clip_parameter: f64 = 0.0, "x-range" = "[0, inf)";
        /// Adaptive clipping: the largest norm of an output unit's gradient, as a share of the norm of its weights; 0 does
        /// not clip. timm's is 0.01 to 0.1.
        pub clip_agc: f64 = 0.0, "x-range" = "[0, inf)";
    }
}

/// The parameters that decay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OptimDecay {
    /// Those of the model's family: neither biases and other one-dimensional parameters, nor those that its authors exclude.
    Family,
    /// All, biases and batch norms included, except those whose name contains `norm`, `relative_position_bias_table`,
    /// `absolute_pos_embed` or `pos_block`: the rule of published segmentation networks, for these only.
    Names,
    /// All.
    All,
}

impl OptimDecay {
    /// Whether a parameter of a network decays.
    pub(crate) fn decays(self, network: &impl Network, parameter: &Parameter) -> bool {
        match self {
            Self::Family => network.decays(parameter),
            Self::Names => network.decays_by_name(parameter),
            Self::All => true,
        }
    }
}

/// The optimizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OptimName {
    /// Adam with decoupled weight decay.
    Adamw,
    /// Stochastic gradient descent with momentum.
    Sgd,
    /// Adam with a rate for each parameter by the ratio of the norms of weights and update.
    Lamb,
    /// The sign of a momentum.
    Lion,
    /// Orthogonalised momentum for the matrices of hidden layers, AdamW for the rest.
    Muon,
}

impl OptimName {
    /// The defaults of [`OptimConfig::betas`], [`OptimConfig::eps`] and [`OptimConfig::momentum`].
    pub(crate) fn defaults(self) -> ([f64; 2], f64, f64) {
        match self {
            Self::Adamw | Self::Sgd => ([0.9, 0.999], 1e-8, 0.9),
            Self::Lamb => ([0.9, 0.999], 1e-6, 0.9),
            Self::Lion => ([0.9, 0.99], 1e-8, 0.9),
            Self::Muon => ([0.9, 0.999], 1e-8, 0.95),
        }
    }
}

/// A `clip` key, its value, and how it clips.
type ClipKey = (&'static str, f64, fn(f64) -> Clip);

impl OptimConfig {
    /// The `clip` keys. At most one is above 0.
    pub(crate) fn clips(&self) -> [ClipKey; 4] {
        [
            ("clip_norm", self.clip_norm, Clip::Norm),
            ("clip_value", self.clip_value, Clip::Value),
            ("clip_parameter", self.clip_parameter, Clip::Parameter),
            ("clip_agc", self.clip_agc, Clip::Adaptive),
        ]
    }

    /// The clipping according to the `clip` key that is above 0.
    pub fn clip(&self) -> Clip {
        let set = self.clips().into_iter().find(|(_, limit, _)| *limit > 0.0);
        set.map_or(Clip::Off, |(_, limit, clip)| clip(limit))
    }
}
