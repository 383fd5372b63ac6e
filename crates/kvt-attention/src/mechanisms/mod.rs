//! The closed set of attention mechanisms: one file per kind, one line per kind below.

use burn::module::Module;
use burn::tensor::Tensor;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::{
    AttentionError, Context, Cost, Mechanism, MechanismConfig, Neighbors, ParamInit, Place,
    SoftmaxOnly,
};

#[macro_use]
mod settings;

mod band;
mod clustered;
mod dense;
mod dpfp;
mod draws;
mod favor;
mod features;
mod inducing;
mod informer;
mod knn;
mod linear;
mod linformer;
mod low_rank_band;
mod luna;
mod memory_compressed;
mod nystrom;
mod performer;
mod performer_relu;
mod poolingformer;
mod rfa;
mod schema;
pub mod scram;
mod weighing;

pub use draws::Redraw;
pub use features::{attend_features, half_square, perpendicular};
pub use inducing::InducedAttention;
pub use linformer::Linformer;
pub use memory_compressed::MemoryCompressed;
pub use nystrom::Nystrom;
pub use scram::ScramSearch;

/// Makes the enums of settings and of modules from lines `Variant: module::Settings`, dispatches the methods of their
/// traits, and re-exports the settings.
macro_rules! mechanisms {
    ($($(#[$cfg:meta])* $kind:ident: $file:ident::$config:ident;)+) => {
        $(
            $(#[$cfg])*
            pub use $file::$config;
        )+

        /// The attention of a model and its settings: the table `[model.attention]`, whose keys are beside `kind`.
        /// Keys of other kinds are ignored, and without `kind` attention is dense.
        ///
        /// Lists among the settings have one entry per stage; [`per_stage`](Self::per_stage) splits them.
        #[derive(Clone, Debug, PartialEq, Serialize)]
        #[serde(tag = "kind", rename_all = "kebab-case")]
        #[non_exhaustive]
        pub enum AttentionConfig {
            $(
                $(#[$cfg])*
                #[doc = concat!("[`", stringify!($config), "`].")]
                $kind($config),
            )+
        }

        /// The module of any kind of attention, made by [`AttentionConfig::init`].
        #[derive(Module, Debug)]
        #[non_exhaustive]
        pub enum Mixer {
            $(
                $(#[$cfg])*
                #[doc = concat!("Made from a [`", stringify!($config), "`].")]
                $kind(<$config as MechanismConfig>::Mechanism),
            )+
        }

        impl AttentionConfig {
            /// The values of `kind`.
            pub const KINDS: &'static [&'static str] =
                &[$($(#[$cfg])* <$config as MechanismConfig>::KIND),+];

            /// The value of `kind`.
            pub fn kind(&self) -> &'static str {
                match self {
                    $($(#[$cfg])* Self::$kind(_) => <$config as MechanismConfig>::KIND,)+
                }
            }

            /// Whether this is softmax attention over the given keys: the kind that can be used wherever a family has
            /// attention, even where others [cannot](Place::softmax_only).
            pub fn is_softmax(&self) -> bool {
                match self {
                    $($(#[$cfg])* Self::$kind(_) => <$config as MechanismConfig>::IS_SOFTMAX,)+
                }
            }

            /// Whether the parameters fit only one number of keys, and the model therefore only one image size.
            pub fn fixes_keys(&self) -> bool {
                match self {
                    $($(#[$cfg])* Self::$kind(_) => <$config as MechanismConfig>::FIXES_KEYS,)+
                }
            }

            /// The default settings of every kind, in the order of [`KINDS`](Self::KINDS).
            pub fn defaults() -> Vec<Self> {
                Vec::from([$($(#[$cfg])* Self::$kind(<$config>::default())),+])
            }

            /// The settings of a kind from its keys.
            fn of_kind<E: Error>(kind: &str, keys: Map<String, Value>) -> Result<Self, E> {
                match kind {
                    $(
                        $(#[$cfg])*
                        <$config as MechanismConfig>::KIND => {
                            let config = <$config>::deserialize(Value::Object(keys));
                            config.map(Self::$kind).map_err(E::custom)
                        }
                    )+
                    _ => Err(E::unknown_variant(kind, Self::KINDS)),
                }
            }

            /// The schema of each kind's settings.
            fn schemas(generator: &mut SchemaGenerator) -> Vec<Schema> {
                Vec::from([$($(#[$cfg])* <$config>::json_schema(generator)),+])
            }

            /// The number of stages that lists among the settings have entries for; 1 if there are no lists.
            fn stages(&self) -> usize {
                match self {
                    $($(#[$cfg])* Self::$kind(config) => config.stages(),)+
                }
            }

            /// The settings of stage number `stage` of a model with `stages` stages.
            ///
            /// # Errors
            /// [`AttentionError::PerStage`], if a list fits neither one stage nor all of them.
            pub fn at_stage(&self, stage: usize, stages: usize) -> Result<Self, AttentionError> {
                Ok(match self {
                    $($(#[$cfg])* Self::$kind(config) => Self::$kind(config.at_stage(stage, stages)?),)+
                })
            }

            /// Refuses settings that are invalid at every place.
            ///
            /// # Errors
            /// A value out of its range, or values that exclude each other.
            pub fn validate(&self) -> Result<(), AttentionError> {
                match self {
                    $($(#[$cfg])* Self::$kind(config) => config.validate(),)+
                }
            }

            /// Refuses invalid settings, and a place where the mechanism cannot be used.
            ///
            /// # Errors
            /// As [`validate`](Self::validate), or [`AttentionError::Misplaced`].
            pub fn validate_at(&self, place: &Place) -> Result<(), AttentionError> {
                self.validate()?;
                if let (Some(SoftmaxOnly { reason, help }), false) = (place.softmax_only, self.is_softmax()) {
                    let reason = format!("cannot be used where {reason}");
                    return Err(AttentionError::misplaced(self.kind(), reason, help));
                }
                match self {
                    $($(#[$cfg])* Self::$kind(config) => config.fits(place),)+
                }
            }

            /// What the mechanism costs at a place, for one image.
            pub fn cost(&self, place: &Place) -> Cost {
                match self {
                    $($(#[$cfg])* Self::$kind(config) => config.cost(place),)+
                }
            }

            /// The module for a place that [`validate_at`](Self::validate_at) accepts.
            pub fn init(&self, place: &Place, init: &impl ParamInit) -> Mixer {
                match self {
                    $($(#[$cfg])* Self::$kind(config) => Mixer::$kind(config.init(place, init)),)+
                }
            }
        }

        impl Mechanism for Mixer {
            fn attend(
                &self,
                q: Tensor<4>,
                k: Tensor<4>,
                v: Tensor<4>,
                context: Context,
            ) -> Tensor<4> {
                match self {
                    $($(#[$cfg])* Self::$kind(module) => module.attend(q, k, v, context),)+
                }
            }

            fn attend_packed(&self, qkv: Tensor<3>, heads: usize, context: Context) -> Tensor<3> {
                match self {
                    $($(#[$cfg])* Self::$kind(module) => module.attend_packed(qkv, heads, context),)+
                }
            }

            fn probabilities(&self, q: Tensor<4>, k: Tensor<4>, context: &Context) -> Option<Tensor<4>> {
                match self {
                    $($(#[$cfg])* Self::$kind(module) => module.probabilities(q, k, context),)+
                }
            }

            fn ranks_with_bias(&self) -> bool {
                match self {
                    $($(#[$cfg])* Self::$kind(module) => module.ranks_with_bias(),)+
                }
            }
        }
    };
}

mechanisms! {
    Dense: dense::DenseConfig;
    Knn: knn::KnnConfig;
    Linear: linear::LinearConfig;
    Favor: favor::FavorConfig;
    Performer: performer::PerformerConfig;
    PerformerRelu: performer_relu::PerformerReluConfig;
    Rfa: rfa::RfaConfig;
    Dpfp: dpfp::DpfpConfig;
    Clustered: clustered::ClusteredConfig;
    ClusteredImproved: clustered::ClusteredImprovedConfig;
    Informer: informer::InformerConfig;
    MemoryCompressed: memory_compressed::MemoryCompressedConfig;
    Inducing: inducing::InducingConfig;
    Luna: luna::LunaConfig;
    Linformer: linformer::LinformerConfig;
    Poolingformer: poolingformer::PoolingformerConfig;
    LowRankBand: low_rank_band::LowRankBandConfig;
    Nystrom: nystrom::NystromConfig;
    Scram: scram::ScramConfig;
    #[cfg(test)]
    Mean: mean::MeanConfig;
}

impl AttentionConfig {
    /// Attention over all keys.
    pub fn dense() -> Self {
        Self::Dense(DenseConfig::default())
    }

    /// The paper's attention: the `neighbors` best keys by dot product.
    pub fn knn(neighbors: Neighbors) -> Self {
        Self::Knn(KnnConfig::new(neighbors))
    }

    /// The settings of each stage: one entry if all stages share them.
    ///
    /// # Errors
    /// [`AttentionError::PerStage`], if lists have different lengths, or no entry.
    pub fn per_stage(&self) -> Result<Vec<Self>, AttentionError> {
        let stages = self.stages().max(1);
        let settings = (0..stages).map(|stage| self.at_stage(stage, stages));
        settings.collect()
    }
}

impl Default for AttentionConfig {
    fn default() -> Self {
        Self::dense()
    }
}

impl<'de> Deserialize<'de> for AttentionConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut keys = Map::deserialize(deserializer)?;
        match keys.remove("kind") {
            None => Self::of_kind(DenseConfig::KIND, keys),
            Some(Value::String(kind)) => Self::of_kind(&kind, keys),
            Some(other) => Err(D::Error::custom(format!("`kind` is {other}, not a name"))),
        }
    }
}

#[cfg(test)]
mod every_kind;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod mean;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
