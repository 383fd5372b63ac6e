//! Vision transformers of one resolution: ViT, DeiT and what came of them.
//!
//! - Papers: Dosovitskiy et al., *An Image is Worth 16x16 Words*, <https://arxiv.org/abs/2010.11929>; Touvron et al.,
//!   *Training data-efficient image transformers & distillation through attention*, <https://arxiv.org/abs/2012.12877>;
//!   Steiner et al., *How to train your ViT?* (AugReg), <https://arxiv.org/abs/2106.10270>; Touvron et al., *DeiT III*,
//!   <https://arxiv.org/abs/2204.07118>; Oquab et al., *DINOv2*, <https://arxiv.org/abs/2304.07193>; Siméoni et al., *DINOv3*,
//!   <https://arxiv.org/abs/2508.10104>; Radford et al., *CLIP*, <https://arxiv.org/abs/2103.00020>; Zhai et al., *SigLIP*,
//!   <https://arxiv.org/abs/2303.15343>
//! - Upstream: parameter names as in timm's `vision_transformer.py`, `deit.py` and `eva.py`
//!
//! A DeiT has none of the [options](VitOptions). timm's `vit_*` without any are the same networks, with different training and
//! image normalisation: their names are aliases of `deit_*`.
//!
//! There is one stage: all tokens attend to all tokens, including those before the map, and each query keeps as many of these
//! keys as the attention is configured to. Norms of queries and keys, and rotary positions, come before that choice.

mod config;
mod network;
mod options;
mod pool;
mod rotary;
mod sizes;

pub use config::VitConfig;
pub use network::Vit;
pub use options::{Embedding, Pool, VitOptions};

use crate::family::{Dense, Family, Official, Renaming, Variant};

pub(crate) static FAMILY: Family = Family {
    name: "ViT",
    signature: "blocks.0.attn.qkv.weight",
    overrides: &["qkv_bias", "patch_size", "pool"],
    outputs: &["head", "head_dist"],
    undecayed: &["cls_token", "dist_token", "reg_token", "pos_embed"],
    paths: Renaming::NONE,
    official: Official {
        is_computed: |name| name == "rope.periods",
        ..Official::TIMM
    },
    dense: Dense::Lacks("one map"),
    variants: VARIANTS,
};

/// timm makes all of these with the same parameter names.
const VARIANTS: &[Variant] = &[
    Variant {
        signature: "blocks.0.mlp.norm.weight",
        difference: "with a norm within its MLPs, as EVA has it",
    },
    Variant {
        signature: "blocks.0.attn.norm.weight",
        difference: "with a norm within its attention, as EVA has it",
    },
    Variant {
        signature: "blocks.0.attn.relative_position_bias_table",
        difference: "with a bias for relative positions, as BEiT has it",
    },
    Variant {
        signature: "blocks.0.attn.q_proj.weight",
        difference: "with a layer each for queries, keys and values, as EVA-02 has them",
    },
    Variant {
        signature: "decoder_pos_embed",
        difference: "with a decoder, as masked auto-encoders have it before fine-tuning",
    },
];
