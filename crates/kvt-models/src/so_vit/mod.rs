//! So-ViT: a vision transformer whose tokens come from residual convolutions, and whose head reads the
//! second-order statistics of the patches beside the class token.
//!
//! - Paper: Xie et al., *So-ViT: Mind Visual Tokens for Vision Transformer*,
//!   <https://arxiv.org/abs/2104.10935v1>
//! - Upstream: <https://github.com/jiangtaoxie/So-ViT> at c31972e, whose parameter names these are; later commits
//!   contain the authors' next model, SoT, and timm has neither
//!
//! There is one stage: all tokens attend to all tokens, including the class token, and each query keeps as many of
//! these keys as the attention is configured to. The positions are a fixed sinusoid, which is saved with the weights
//! and never trained.
//!
//! The original derives the stride of the last bottleneck from the size of the image, as `img_size / 112`, and so
//! accepts only images of 112 to 335 pixels. Here `strides` is a setting, and a bottleneck projects its shortcut
//! wherever channels or size change; where the original runs, both are the same with strides of 2, 2, 2 from 224
//! pixels, and of 2, 2, 1 below.

mod config;
mod network;
mod visual_tokens;

pub use config::SoVitConfig;
pub use network::SoVit;

use crate::family::{Dense, Family, Official, Renaming};

pub(crate) static FAMILY: Family = Family {
    name: "So-ViT",
    signature: "visual_tokens.tokens.transition.weight",
    overrides: &["qkv_bias", "strides", "cov_dims", "head_drop"],
    outputs: &[
        "classifier.cls_fc",
        "",
        "",
        "classifier.visual_fc",
        "classifier",
    ],
    // The original excludes no parameter by its name: the class token decays.
    undecayed: &[],
    paths: Renaming::NONE,
    // timm has no So-ViT, so there are no other names.
    official: Official {
        is_official: |_| true,
        names: Renaming::NONE,
        is_computed: |name| name == "pos_embed",
    },
    dense: Dense::Lacks("one map"),
    variants: &[],
};
