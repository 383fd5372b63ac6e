//! Vision transformer backbones with k-NN attention per stage.
//!
//! A name becomes a [`ModelConfig`] ([`ModelConfig::by_name`]), overrides change it
//! ([`ModelConfig::with`]), and a device and a key make it a [`Model`] ([`ModelConfig::init`]).
//! What a configuration costs is known without building it ([`ModelConfig::summary`]).
//!
//! Parameters carry timm's names and PyTorch's layout wherever they leave the model: in
//! [`Model::parameters`], in a [`weights::StateDict`] and in files.

mod architecture;
mod common;
pub mod cvt;
pub mod deit;
mod error;
pub mod layers;
mod model;
mod overrides;
pub mod pit;
mod registry;
mod stages;
mod summary;
pub mod swin;
mod validate;
pub mod weights;

pub use common::CommonConfig;
pub use error::ModelError;
pub use kvt_attention::Macs;
pub use model::{Logits, Model, Parameter};
pub use overrides::ModelOverrides;
pub use registry::{ModelConfig, names};
pub use stages::StagesConfig;
pub use summary::{StageSummary, Summary};
