//! T2T-ViT: a vision transformer whose tokens are made by transforming and unfolding a map three times, so that
//! neighbouring patches overlap.
//!
//! - Paper: Yuan et al., *Tokens-to-Token ViT: Training Vision Transformers from Scratch on ImageNet*,
//!   <https://arxiv.org/abs/2101.11986>
//! - Upstream: <https://github.com/yitu-opensource/T2T-ViT>, whose parameter names these are; timm has no
//!   T2T-ViT
//!
//! The token module has three soft splits (unfolding). Each of the first two is followed by a layer over all tokens:
//! in the `t2t_vit_t_*` a transformer with one head, whose queries keep as many keys as the attention is configured
//! to; in the others a Performer, which approximates softmax attention by random features and so makes no scores to
//! choose keys by. The blocks after it are those of DeiT.
//!
//! There are three stages, `tokens_to_token.attention1`, `tokens_to_token.attention2` and `blocks`. All of them
//! choose keys if the token module has transformers, and only the last if it has Performers.
//!
//! As in the original, the scores of a token transformer are scaled by the width of its input, not of its head; only
//! the blocks have drop path, attention dropout and an optional bias of queries, keys and values; and positions are a
//! fixed sinusoid. The sinusoid is computed for the configured image size, and resized if weights come from another
//! size. Images that are not square work here; the original refuses them.
//!
//! The original changes the scale of the blocks' scores when it is asked for pretrained weights. The published
//! weights were trained without this change, and it is left out.

mod config;
mod network;
mod performer;
mod token;
mod transformer;

pub use config::{T2tConfig, TokensType};
pub use network::T2t;

use crate::family::{Dense, Family, Official, Renaming};

/// The original's epsilon of all layer norms, PyTorch's default.
const NORM_EPSILON: f64 = 1e-5;

pub(crate) static FAMILY: Family = Family {
    name: "T2T-ViT",
    signature: "tokens_to_token.project.weight",
    overrides: &["qkv_bias", "strides", "token_dim"],
    outputs: &["head"],
    undecayed: &["cls_token"],
    // The MLP of a Performer is a list of layers in the original, with the activation between them.
    paths: Renaming::Beginnings(&[
        (
            "tokens_to_token.attention#.sequential.fc1.",
            "tokens_to_token.attention#.mlp.0.",
            0,
        ),
        (
            "tokens_to_token.attention#.sequential.fc2.",
            "tokens_to_token.attention#.mlp.2.",
            0,
        ),
    ]),
    // timm has no T2T-ViT, so there are no other names.
    official: Official {
        is_official: |_| true,
        is_computed: |name| name == "pos_embed",
        ..Official::TIMM
    },
    dense: Dense::Lacks("one map"),
    variants: &[],
};
