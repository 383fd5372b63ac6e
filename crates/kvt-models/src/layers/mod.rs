//! Layers that several backbones share.

mod batch_norm;
mod block;
mod conv;
mod conv_norm;
mod drop_path;
mod init;
mod mlp;
mod patch_embed;
mod pool;
mod recent;
mod scale;
mod sinusoid;
mod tokens;
mod windows;

pub use batch_norm::{BatchNorm, BatchNormSettings};
pub(crate) use block::{
    Block, BlockKind, Pass, SelfAttention, add_branch, forward_blocks, forward_each, plus, project,
};
pub use conv::{Conv2d, ConvSettings};
pub(crate) use conv_norm::ConvNorm;
pub use drop_path::{drop_path, drop_path_rates};
pub use init::Init;
pub use mlp::Activation;
pub(crate) use mlp::Mlp;
pub use patch_embed::PatchEmbed;
pub(crate) use patch_embed::convolve_tokens;
pub use pool::avg_pool_ceil;
pub(crate) use recent::Recent;
pub use scale::ScaleKind;
pub(crate) use scale::scaled;
pub use sinusoid::sinusoid;
pub(crate) use tokens::{to_map, to_tokens};
pub use windows::WindowPadding;
pub(crate) use windows::Windows;
