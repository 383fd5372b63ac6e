//! TNT: a vision transformer whose patches contain smaller transformers over pixels.
//!
//! - Paper: Han et al., *Transformer in Transformer*, <https://arxiv.org/abs/2103.00112>
//! - Upstream: <https://github.com/huawei-noah/Efficient-AI-Backbones>, folder `tnt_pytorch`; parameter names as in timm's
//!   `tnt.py`
//!
//! Every block has an inner transformer, in which the pixels of a patch attend to each other, and an outer one, in
//! which the patches and the class token do. Between the two, the pixels of each patch are projected onto its token.
//! Each has its own attention: lists of the configuration have two entries, `inner` and `outer`.
//!
//! "Pixels" are the outputs of a convolution of a patch. The convolution sees no pixel of another patch: it pads each
//! patch with zeros. timm's `legacy` model convolves the whole image instead, and projects pixels differently.
//!
//! Inner drop path drops branches of single patches. `mlp_ratio` is for the outer MLP; the inner one is four times as wide
//! as its tokens, as in timm (the original has one ratio for both, which is 4). Position embeddings of patches are resized
//! for another image size as in a DeiT; the embeddings of pixels are the same for every size.

mod attention;
mod config;
mod network;
mod weight_names;

pub use config::TntConfig;
pub use network::Tnt;

use crate::family::{Dense, Family, Official};

pub(crate) static FAMILY: Family = Family {
    name: "TNT",
    signature: "blocks.0.proj.weight",
    overrides: &[
        "qkv_bias",
        "patch_size",
        "inner_dim",
        "inner_num_heads",
        "inner_stride",
    ],
    outputs: &["head"],
    undecayed: &["cls_token", "patch_pos", "pixel_pos"],
    paths: weight_names::PATHS,
    official: Official {
        is_official: weight_names::is_official,
        names: weight_names::OFFICIAL,
        // Zeros that the original saves but never reads.
        is_computed: |name| name == "outer_tokens",
    },
    dense: Dense::Lacks("one map"),
    variants: &[],
};
