//! Swin: attention in windows of the image that shift from block to block, and maps that shrink
//! from stage to stage.
//!
//! - Paper: Liu et al., *Swin Transformer: Hierarchical Vision Transformer using Shifted Windows*,
//!   <https://arxiv.org/abs/2103.14030>
//! - Upstream: <https://github.com/microsoft/Swin-Transformer>; parameter names as in timm's
//!   `swin_transformer.py`
//!
//! A token attends to the tokens of its window, and keeps as many of these keys as the attention of its stage is
//! configured to. The selection sees the complete scores: with the relative position bias, and in shifted windows
//! with the mask.
//!
//! As in the original, the mask adds -100, not minus infinity, if tokens of a window are not neighbours in the image.
//! Beside a visible key, a weight of about e^-100 vanishes in f32: a query that keeps more keys than are visible
//! gives the others no weight.
//!
//! Maps that do not divide into windows are handled as in timm, since the original refuses them: the map is rolled,
//! then padded with zeros at its right and bottom, and the padding is not masked, so that the biases of the
//! projection are keys there. As the backbone of a [dense network](crate::dense) a Swin follows the official dense
//! networks instead ([`CommonConfig::dense`](crate::CommonConfig::dense)): the map is padded before it is rolled,
//! every second block is shifted, and windows are never smaller than configured.

mod attention;
mod config;
mod masks;
mod mm;
mod network;
mod table;
mod weight_names;
mod window;

pub use config::SwinConfig;
pub use network::Swin;

use crate::family::{Dense, DenseFamily, Family, Official, Renaming};

pub(crate) static FAMILY: Family = Family {
    name: "Swin",
    signature: "layers.0.blocks.0.attn.qkv.weight",
    overrides: &["qkv_bias", "patch_size", "window_size"],
    outputs: &["head.fc"],
    undecayed: &["relative_position_bias_table"],
    paths: Renaming::NONE,
    official: Official {
        is_official: weight_names::is_official,
        names: weight_names::NAMES,
        is_computed: weight_names::is_computed,
    },
    dense: Dense::Pyramid(DenseFamily {
        norms: "norm",
        epsilon: 1e-5,
        in_stream: false,
        to_timm: mm::to_timm,
    }),
    variants: &[],
};
