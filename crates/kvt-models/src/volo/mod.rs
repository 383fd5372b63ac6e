//! VOLO: attention for which each place makes the weights by itself ("outlookers") on a fine map, transformer blocks on
//! a coarse one, and a class token that reads it at the end.
//!
//! - Paper: Yuan et al., *VOLO: Vision Outlooker for Visual Recognition*,
//!   <https://arxiv.org/abs/2106.13112>
//! - Upstream: <https://github.com/sail-sg/volo>; parameter names as in timm's `volo.py`, which are the
//!   authors'
//!
//! In the transformer blocks every token attends to every other, and keeps as many of these keys as the attention of
//! its stage is configured to. The class token attends to itself and to all tokens in two blocks that change nothing
//! else; its attention has its own setting (`class_attention`). The weights of an outlooker are made by a linear
//! layer and not from keys, so that there are no scores to choose by, and `attention` has no entry for that stage.
//!
//! A second output of the classifier reads every token. A prediction is the class token's plus half of the maximum
//! over the tokens', class by class; training can give the tokens their own targets
//! ([`Logits::aux`](crate::Logits::aux)).
//!
//! For images of another size, position embeddings are interpolated as by the authors, bicubic and without
//! antialiasing. timm refuses such images.

mod class;
mod config;
mod network;
mod outlook;
mod stage;
mod weight_names;

pub use config::VoloConfig;
pub use network::Volo;

use crate::family::{Dense, Family, Official};

/// Tokens along a side of the fine map per token of the coarse map.
pub const POOLING: usize = 2;
/// The original's epsilon of all layer norms.
const NORM_EPSILON: f64 = 1e-5;

pub(crate) static FAMILY: Family = Family {
    name: "VOLO",
    signature: "network.0.0.attn.attn.weight",
    overrides: &["qkv_bias", "strides", "stem_dim", "class_attention"],
    outputs: &["head", "", "aux_head"],
    undecayed: &["cls_token", "pos_embed"],
    paths: weight_names::PATHS,
    // The authors' names are timm's.
    official: Official::TIMM,
    dense: Dense::Lacks("two maps"),
    variants: &[],
};
