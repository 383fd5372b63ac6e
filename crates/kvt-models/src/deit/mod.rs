//! DeiT: data-efficient image transformers, with and without a distillation token.
//!
//! - Paper: Touvron et al., *Training data-efficient image transformers & distillation through
//!   attention*, <https://arxiv.org/abs/2012.12877>
//! - Upstream: <https://github.com/facebookresearch/deit>; parameter names as in timm's
//!   `vision_transformer.py` and `deit.py`
//!
//! One stage: all tokens attend to all tokens, the class token (and the distillation token)
//! included, and each query keeps as many of these keys as the configured attention says.

mod config;
mod network;

pub use config::DeitConfig;
pub use network::Deit;

use crate::family::{Family, Official, Renaming, Undecayed};
use crate::overrides::{BLOCKS, COMMON};

pub(crate) static FAMILY: Family = Family {
    name: "DeiT",
    signature: "blocks.0.attn.qkv.weight",
    overrides: &[COMMON, BLOCKS, &["patch_size"]],
    outputs: &["head", "head_dist"],
    undecayed: &[
        Undecayed::Last("cls_token"),
        Undecayed::Last("dist_token"),
        Undecayed::Last("pos_embed"),
    ],
    paths: Renaming::NONE,
    official: Official::TIMM,
};
