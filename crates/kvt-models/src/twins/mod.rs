//! Twins-SVT: alternating blocks that attend within windows and blocks that attend to a few keys of the whole map, on
//! maps that shrink from stage to stage.
//!
//! - Paper: Chu et al., *Twins: Revisiting the Design of Spatial Attention in Vision Transformers*,
//!   <https://arxiv.org/abs/2104.13840>
//! - Upstream: <https://github.com/Meituan-AutoML/Twins> (`ALTGVT`); parameter names as in timm's `twins.py`,
//!   which are the same
//!
//! In blocks 0, 2, ... of a stage a token attends to the tokens of its window (locally-grouped attention); in blocks
//! 1, 3, ... to the keys that a convolution makes of the whole map, one for every `sr_ratio` x `sr_ratio` tokens
//! (global sub-sampled attention). At 224 px both have 49 keys in every stage. Each query keeps as many of them as
//! the attention of the stage is configured to; a share is a share of the keys of the block. Positions come from a
//! convolution after the first block of each stage, so that the weights are the same for every image size.
//!
//! Maps that do not divide into windows are handled as in timm, since the original refuses them: the map is padded
//! with zeros at its right and bottom, and the padding is not masked, so that the biases of the projection are keys
//! there. Attention that keeps only some of the keys never keeps padding: it would take the places of tokens.
//!
//! As the backbone of a [dense network](crate::dense) a Twins takes images of any size, whose remainders its convolutions
//! drop, and hides padding as configured ([`CommonConfig::dense`](crate::CommonConfig::dense)). As in the original's, a
//! stage begins with the normalised map of the one before it.

mod attention;
mod config;
mod network;
mod stage;

pub use config::TwinsConfig;
pub use network::Twins;

use crate::family::{Dense, DenseFamily, Family, Official, Renaming, Variant};

pub(crate) static FAMILY: Family = Family {
    name: "Twins",
    signature: "pos_block.0.proj.0.weight",
    overrides: &["qkv_bias", "strides", "window_size", "sr_ratio"],
    outputs: &["head"],
    undecayed: &["pos_block"],
    paths: Renaming::NONE,
    official: Official::TIMM,
    dense: Dense::Pyramid(DenseFamily {
        norms: "norm_list.",
        epsilon: 1e-6,
        in_stream: true,
        to_timm: |weights| weights,
    }),
    variants: &[Variant {
        signature: "blocks.0.0.attn.kv.weight",
        difference: "without windows, Twins-PCPVT, all of whose blocks attend to the whole map",
    }],
};
