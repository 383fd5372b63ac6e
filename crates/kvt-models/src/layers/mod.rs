//! What several backbones share.

mod drop_path;
mod init;
mod mlp;
mod patch_embed;

pub use drop_path::{drop_path, drop_path_rates, drops_paths};
pub use init::Init;
pub use mlp::Mlp;
pub use patch_embed::{PatchEmbed, PatchProjection};
