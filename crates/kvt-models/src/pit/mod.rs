//! PiT: a vision transformer whose map of tokens shrinks by pooling, as in a convolutional network, with and
//! without a distillation token.
//!
//! - Paper: Heo et al., *Rethinking Spatial Dimensions of Vision Transformers*,
//!   <https://arxiv.org/abs/2103.16302>
//! - Upstream: <https://github.com/naver-ai/pit>; parameter names as in timm's `pit.py`
//!
//! In every stage all tokens attend to all tokens, including the class token (and the distillation token), and each
//! query keeps as many of these keys as the attention of the stage is configured to. Between stages the map is pooled
//! by a convolution, and the class tokens by a linear layer.
//!
//! Position embeddings of another image size are resized as in a DeiT; the original and timm refuse them. Drop path
//! rates rise to the configured rate in the last block, as in timm; the original's stay one step below it.

mod config;
mod network;
mod stage;

pub use config::PitConfig;
pub use network::Pit;

use crate::family::{Dense, Family, Official, Renaming};

pub(crate) static FAMILY: Family = Family {
    name: "PiT",
    signature: "transformers.0.blocks.0.attn.qkv.weight",
    overrides: &["qkv_bias", "patch_size", "patch_stride"],
    outputs: &["head", "head_dist"],
    undecayed: &["pos_embed", "cls_token"],
    paths: Renaming::NONE,
    official: Official {
        is_official: |weights| weights.iter().any(|(name, _)| name.starts_with("pools.")),
        names: Renaming::Beginnings(&[("pools.#.", "transformers.#.pool.", 1)]),
        is_computed: |_| false,
    },
    dense: Dense::Lacks("three maps"),
    variants: &[],
};
