//! Vision transformer backbones with k-NN attention per stage.
//!
//! A name becomes a [`ModelConfig`] ([`ModelConfig::by_name`]), overrides change it
//! ([`ModelConfig::with`]), and a device and a key make it a [`Model`] ([`ModelConfig::init`]).
//! The cost of a configuration is known without building the model ([`ModelConfig::summary`]).
//!
//! A model is a [`Backbone`] and a [`Head`]. A backbone can return more than its tokens ([`Ask`]): the maps of its
//! stages, the tokens after its last blocks, or, to an [`Observer`], intermediate results of its blocks.
//!
//! Parameters carry timm's names and PyTorch's layout wherever they leave the model: in
//! [`Model::parameters`], in a [`weights::StateDict`] and in files. [`checkpoint`] brings files and models
//! together.

mod backbone;
pub mod checkpoint;
mod common;
mod config;
pub mod cvt;
pub mod deit;
mod depth;
mod error;
mod families;
mod family;
mod head;
pub mod layers;
mod model;
mod observe;
mod overrides;
pub mod pit;
mod places;
mod precision;
pub mod so_vit;
mod stages;
mod summary;
pub mod swin;
pub mod t2t;
#[cfg(test)]
mod testing;
pub mod tnt;
pub mod twins;
mod validate;
pub mod visformer;
pub mod volo;
pub mod weights;

pub use backbone::{Ask, Backbone, Features, Positions, TokenMix};
pub use common::CommonConfig;
pub use config::{aliases, names};
pub use error::ModelError;
pub use families::{AnyBackbone, ModelConfig};
pub use head::{Classifier, Head, Logits, Reads};
pub use kvt_attention::Macs;
pub use model::{Model, Parameter};
pub use observe::{BlockIndex, Observer, Point};
pub use overrides::ModelOverrides;
pub use precision::Precision;
pub use stages::StagesConfig;
pub use summary::{StageAttention, StageSummary, Summary};
