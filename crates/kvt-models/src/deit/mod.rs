//! DeiT: data-efficient image transformers, with and without a distillation token.
//!
//! - Paper: Touvron et al., *Training data-efficient image transformers & distillation through
//!   attention*, <https://arxiv.org/abs/2012.12877>
//! - Upstream: <https://github.com/facebookresearch/deit>; parameter names as in timm's
//!   `vision_transformer.py` and `deit.py`
//!
//! timm's `vit_*` of the same modules (no global pooling, no norm before the blocks, no layer scale) are the same
//! networks, with different training and image normalisation: their names are aliases.
//!
//! There is one stage: all tokens attend to all tokens, including the class token (and the distillation token), and
//! each query keeps as many of these keys as the attention is configured to.

mod config;
mod network;

pub use config::DeitConfig;
pub use network::Deit;

use crate::family::overrides::{BLOCKS, COMMON};
use crate::family::{Dense, Family, Official, Renaming, Undecayed, Variant};

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
    dense: Dense::Lacks("one map"),
    variants: VARIANTS,
};

/// timm's `vision_transformer.py` makes all of these with the same parameter names.
const VARIANTS: &[Variant] = &[
    Variant {
        signature: "fc_norm.weight",
        difference: "whose head reads the mean of all tokens (global pooling), where a DeiT's reads the class token",
    },
    Variant {
        signature: "norm_pre.weight",
        difference: "with a norm before its blocks, as CLIP has it",
    },
    Variant {
        signature: "blocks.0.ls1.gamma",
        difference: "with layer scale, as DeiT III, BEiT and DINOv2 have it",
    },
    Variant {
        signature: "blocks.0.gamma_1",
        difference: "with layer scale, as DeiT III, BEiT and DINOv2 have it",
    },
    Variant {
        signature: "reg_token",
        difference: "with register tokens",
    },
    Variant {
        signature: "blocks.0.attn.q_norm.weight",
        difference: "that normalises queries and keys",
    },
    Variant {
        signature: "blocks.0.attn.q_bias",
        difference: "whose keys have no bias, as BEiT has it",
    },
    Variant {
        signature: "blocks.0.mlp.norm.weight",
        difference: "with a norm within its MLPs, as EVA has it",
    },
    Variant {
        signature: "attn_pool.latent",
        difference: "whose head reads an attention pool, as SigLIP has it",
    },
    Variant {
        signature: "decoder_pos_embed",
        difference: "with a decoder, as masked auto-encoders have it before fine-tuning",
    },
];
