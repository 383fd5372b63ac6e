//! What a run may change about a named model.

use kvt_attention::AttentionConfig;

use crate::error::ModelError;

/// Changes to a named configuration; `None` and an empty list keep the model's own value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelOverrides {
    /// Side of the input image in pixels.
    pub img_size: Option<usize>,
    /// Side of a patch in pixels.
    pub patch_size: Option<usize>,
    /// Pixels from one patch to the next, where patches may overlap.
    pub patch_stride: Option<usize>,
    /// Side of an attention window in tokens.
    pub window_size: Option<usize>,
    /// Stride of the convolution that makes keys and values.
    pub kv_stride: Option<usize>,
    /// Channels of a token: one number, or one per stage.
    pub embed_dim: Vec<usize>,
    /// Blocks: one number, or one per stage.
    pub depth: Vec<usize>,
    /// Attention heads: one number, or one per stage.
    pub num_heads: Vec<usize>,
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
    /// One attention for all stages, or one per stage, as [`AttentionConfig::per_stage`] makes them; empty
    /// keeps the model's own.
    pub attention: Vec<AttentionConfig>,
}

/// The keys of [`CommonConfig`](crate::CommonConfig).
pub(crate) const COMMON: &[&str] = &[
    "img_size",
    "in_chans",
    "num_classes",
    "mlp_ratio",
    "qkv_bias",
    "drop_path",
    "attn_drop",
];
/// The keys of blocks: how many, and what is in them.
pub(crate) const BLOCKS: &[&str] = &["embed_dim", "depth", "num_heads", "attention"];

impl ModelOverrides {
    /// The keys that are given, in the order of the fields.
    pub(crate) fn given(&self) -> impl Iterator<Item = &'static str> {
        // Without `..`, so that no new field is forgotten.
        let Self {
            img_size,
            patch_size,
            patch_stride,
            window_size,
            kv_stride,
            embed_dim,
            depth,
            num_heads,
            mlp_ratio,
            in_chans,
            num_classes,
            qkv_bias,
            drop_path,
            attn_drop,
            attention,
        } = self;
        let keys = [
            ("img_size", img_size.is_some()),
            ("patch_size", patch_size.is_some()),
            ("patch_stride", patch_stride.is_some()),
            ("window_size", window_size.is_some()),
            ("kv_stride", kv_stride.is_some()),
            ("embed_dim", !embed_dim.is_empty()),
            ("depth", !depth.is_empty()),
            ("num_heads", !num_heads.is_empty()),
            ("mlp_ratio", mlp_ratio.is_some()),
            ("in_chans", in_chans.is_some()),
            ("num_classes", num_classes.is_some()),
            ("qkv_bias", qkv_bias.is_some()),
            ("drop_path", drop_path.is_some()),
            ("attn_drop", attn_drop.is_some()),
            ("attention", !attention.is_empty()),
        ];
        keys.into_iter()
            .filter_map(|(key, given)| given.then_some(key))
    }

    /// The number of stages: as many as `depth` has entries, or the model's own.
    pub(crate) fn stages(&self, own: usize) -> usize {
        match self.depth.len() {
            0 | 1 => own,
            stages => stages,
        }
    }

    /// The attention of each stage. A list of another length is refused by
    /// [`ModelConfig::with`](crate::ModelConfig::with), which knows the stages' key counts.
    pub(crate) fn attentions(
        &self,
        own: &[AttentionConfig],
        stages: usize,
    ) -> Vec<AttentionConfig> {
        let given = if self.attention.is_empty() {
            own
        } else {
            &self.attention
        };
        match given.first() {
            Some(first) if given.len() != stages => vec![first.clone(); stages],
            _ => given.to_vec(),
        }
    }
}

/// One number where the model has one stage.
pub(crate) fn one(field: &'static str, given: &[usize], own: usize) -> Result<usize, ModelError> {
    match given {
        [] => Ok(own),
        [one] => Ok(*one),
        list => Err(ModelError::OneStage {
            field,
            given: list.len(),
        }),
    }
}

/// A number per stage, from one for all, one per stage, or the model's own.
pub(crate) fn per_stage(
    field: &'static str,
    given: &[usize],
    own: &[usize],
    stages: usize,
) -> Result<Vec<usize>, ModelError> {
    if given.is_empty() && own.len() > 1 && own.len() != stages {
        return Err(ModelError::StageListMissing {
            field,
            stages,
            own: own.len(),
        });
    }
    let list = if given.is_empty() { own } else { given };
    match list {
        [one] => Ok(vec![*one; stages]),
        list if list.len() == stages => Ok(list.to_vec()),
        list => Err(ModelError::StageCount {
            field,
            given: list.len(),
            stages,
        }),
    }
}
