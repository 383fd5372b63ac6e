//! Visformer: a vision transformer whose first stage has convolutions instead of attention, and batch norms
//! throughout.
//!
//! - Paper: Chen et al., *Visformer: The Vision-friendly Transformer*, <https://arxiv.org/abs/2104.12533>
//! - Upstream: <https://github.com/danczs/Visformer>; parameter names as in timm's `visformer.py`
//!
//! There are three stages: in the first, blocks have an MLP with a grouped convolution within it; in the others all
//! tokens attend to all tokens of their map. So lists of heads and of attention have two entries, for `stage2` and
//! `stage3`. There is no class token: the head reads the mean of the last map.
//!
//! Scores are scaled by `head_dim^-0.5`, the default of the original. Its option `--qk-scale-factor=-0.5` scales them
//! by `head_dim^-1`: weights trained that way are another model, which their names do not reveal.
//!
//! The strides of the stem and of the patch embeddings are configurable, for small images. Position embeddings of
//! another image size are resized as in a DeiT; the original and timm refuse them.

mod attention;
mod block;
mod config;
mod network;
mod stage;
mod weight_names;

pub use config::VisformerConfig;
pub use network::Visformer;

use crate::family::{Dense, Family, Official};

pub(crate) static FAMILY: Family = Family {
    name: "Visformer",
    signature: "stage1.0.mlp.conv1.weight",
    // Its projections never have a bias.
    overrides: &["strides"],
    outputs: &["head"],
    // Position embeddings decay, too.
    undecayed: &[],
    paths: weight_names::PATHS,
    official: Official {
        is_official: weight_names::is_official,
        names: weight_names::OFFICIAL,
        is_computed: |_| false,
    },
    dense: Dense::Lacks("three maps"),
    variants: &[],
};
