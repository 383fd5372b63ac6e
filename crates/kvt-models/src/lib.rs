#![doc = include_str!("../README.md")]
//!
//! # Parts
//! A model is a [`Backbone`] and a [`Classifier`]. A backbone can return more than its tokens ([`Ask`]): the maps of its
//! stages, the tokens after its last blocks, or, to an [`Observer`], intermediate results of its blocks.
//!
//! Parameters carry timm's names and PyTorch's layout wherever they leave the model: in
//! [`Network::parameters`], in a [`weights::StateDict`] and in files. [`weights`] brings files and models together.

mod backbone;
mod config;
pub mod cvt;
pub mod dense;
mod error;
mod family;
mod head;
pub mod layers;
mod lora;
mod model;
mod network;
mod observe;
pub mod pit;
mod precision;
mod similar;
pub mod so_vit;
pub mod swin;
pub mod t2t;
#[cfg(test)]
mod testing;
pub mod tnt;
pub mod twins;
pub mod visformer;
pub mod vit;
pub mod volo;
pub mod weights;

pub use backbone::{Ask, Backbone, Features, Positions, StageEnd, TokenMix};
pub use config::{aliases, lacking, names};
pub use error::ModelError;
pub use family::common::CommonConfig;
pub use family::cost::{StageAttention, StageSummary, Summary};
pub use family::families::{AnyBackbone, ModelConfig};
pub use family::img_size::ImgSize;
pub use family::model_keys::ModelOverrides;
pub use family::stages::StagesConfig;
pub use head::{Classifier, Logits};
pub use kvt_attention::Macs;
pub use lora::Lora;
pub use model::{Model, Parameter};
pub use network::Network;
pub use observe::{BlockIndex, Observer, Point, Prefix};
pub use precision::Precision;
pub use similar::similar;
