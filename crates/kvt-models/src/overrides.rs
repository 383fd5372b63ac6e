//! What a run may change about a named model.

use kvt_attention::Attention;

/// Changes to a named configuration; `None` keeps the model's own value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelOverrides {
    /// Side of the input image in pixels.
    pub img_size: Option<usize>,
    /// Side of a patch in pixels.
    pub patch_size: Option<usize>,
    /// Channels of a token.
    pub embed_dim: Option<usize>,
    /// Blocks.
    pub depth: Option<usize>,
    /// Attention heads.
    pub num_heads: Option<usize>,
    /// Hidden channels of the MLP as a multiple of `embed_dim`.
    pub mlp_ratio: Option<f64>,
    /// Channels of the input image.
    pub in_chans: Option<usize>,
    /// Classes.
    pub num_classes: Option<usize>,
    /// Whether queries, keys and values have a bias.
    pub qkv_bias: Option<bool>,
    /// Stochastic depth of the last block, in [0, 1).
    pub drop_path: Option<f64>,
    /// Dropout of the attention weights, in [0, 1).
    pub attn_drop: Option<f64>,
    /// One attention for all stages, or one per stage; empty keeps the model's own.
    pub attention: Vec<Attention>,
}
