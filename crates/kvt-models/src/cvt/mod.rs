//! CvT: a vision transformer that shrinks its map of tokens by convolutions, and makes queries, keys
//! and values by convolutions too.
//!
//! - Paper: Wu et al., *CvT: Introducing Convolutions to Vision Transformers*,
//!   <https://arxiv.org/abs/2103.15808>
//! - Upstream: <https://github.com/microsoft/CvT>, whose parameter names these are; timm has no CvT
//!
//! In every stage a token attends to the tokens of a map that the convolution of keys and values has halved
//! (`kv_stride`), and keeps as many of these keys as the attention of the stage is configured to. The class token
//! joins in the last stage, as a query and as a key.
//!
//! As in the original, scores are scaled by the width of the model, `dim^-0.5`, and not by the width of a head. There
//! are no position embeddings, so that the weights are the same for every image size.

mod attention;
mod config;
mod network;
mod stage;

pub use config::CvtConfig;
pub use network::Cvt;

use crate::family::{Dense, Family, Official, Renaming};

pub(crate) static FAMILY: Family = Family {
    name: "CvT",
    signature: "stage0.blocks.0.attn.proj_q.weight",
    overrides: &["qkv_bias", "patch_size", "patch_stride", "kv_stride"],
    outputs: &["head"],
    undecayed: &["cls_token"],
    paths: Renaming::Beginnings(&[("stages.#.", "stage#.", 0)]),
    // timm has no CvT, so there are no other names.
    official: Official {
        is_official: |_| true,
        ..Official::TIMM
    },
    dense: Dense::Lacks("three maps"),
    variants: &[],
};
