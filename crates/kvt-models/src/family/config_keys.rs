//! The keys of the section `[model]`, by which a configuration changes a named model.
//!
//! [`ModelConfig::with`](crate::ModelConfig::with) refuses the keys that the family does not take, and has the others applied by `with` in
//! the `config.rs` of the family.

use kvt_attention::{AttentionConfig, PerStage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ModelError;
use crate::family::img_size::ImgSize;
use crate::family::validate;
use crate::vit::Pool;

/// Changes to a named configuration, the keys of the section `[model]`; `None` keeps the model's own value.
// In the schema `x-range` is the interval of every number in a value, and `x-default` the default in words.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ModelOverrides {
    /// Height and width of the input in pixels: one number for both, or, with a ViT, a list of the two.
    #[schemars(extend("x-range" = "[1, inf)", "x-default" = "the model's own"))]
    pub img_size: Option<ImgSize>,
    /// Height and width of a patch in pixels.
    #[schemars(extend("x-range" = "[1, inf)", "x-default" = "the model's own"))]
    pub patch_size: Option<usize>,
    /// Pixels from one patch to the next, where patches may overlap: PiT and CvT.
    #[schemars(extend("x-range" = "[1, inf)", "x-default" = "the model's own"))]
    pub patch_stride: Option<usize>,
    /// Height and width of an attention window in tokens. Swin: one number. Twins: one number, or a list with one per
    /// stage of the model.
    #[schemars(extend("x-range" = "[1, inf)", "x-default" = "the model's own"))]
    pub window_size: Option<PerStage<usize>>,
    /// Height and width of the square of tokens that make one key of the whole map: Twins. One number, or a list with one
    /// per stage of the model.
    #[schemars(extend("x-range" = "[1, inf)", "x-default" = "the model's own"))]
    pub sr_ratio: Option<PerStage<usize>>,
    /// Stride of the convolution that makes keys and values: CvT.
    #[schemars(extend("x-range" = "[1, inf)", "x-default" = "the model's own"))]
    pub kv_stride: Option<usize>,
    /// The strides with which the image becomes smaller, step by step. T2T-ViT: of the three soft splits. So-ViT: of the
    /// three bottlenecks after the pooling. Visformer: of the stem (0 for no stem) and of the three patch embeddings.
    /// Twins: the patch sizes of the stages. VOLO: of the first convolution, and of the patches that its map is cut into.
    #[schemars(extend("x-range" = "[0, inf)", "x-default" = "the model's own"))]
    pub strides: Option<Vec<usize>>,
    /// Width of the convolutions before the patches: VOLO.
    #[schemars(extend("x-range" = "[1, inf)", "x-default" = "the model's own"))]
    pub stem_dim: Option<usize>,
    /// Width of a token between the soft splits: T2T-ViT.
    #[schemars(extend("x-range" = "[1, inf)", "x-default" = "the model's own"))]
    pub token_dim: Option<usize>,
    /// Width of a pixel within a patch: TNT.
    #[schemars(extend("x-range" = "[1, inf)", "x-default" = "the model's own"))]
    pub inner_dim: Option<usize>,
    /// Number of attention heads of the transformers within patches: TNT.
    #[schemars(extend("x-range" = "[1, inf)", "x-default" = "the model's own"))]
    pub inner_num_heads: Option<usize>,
    /// Stride of the convolution that makes the pixels within a patch: TNT.
    #[schemars(extend("x-range" = "[1, inf)", "x-default" = "the model's own"))]
    pub inner_stride: Option<usize>,
    /// Width of a token: one number, or a list with one per stage of the model. With Swin the number of the first
    /// stage, which doubles from stage to stage.
    #[schemars(extend("x-range" = "[1, inf)", "x-default" = "the model's own"))]
    pub embed_dim: Option<PerStage<usize>>,
    /// Number of transformer blocks: one number, or a list with one per stage of the model.
    #[schemars(extend("x-range" = "[1, inf)", "x-default" = "the model's own"))]
    pub depth: Option<PerStage<usize>>,
    /// Number of attention heads: one number, or a list with one per stage of the model.
    #[schemars(extend("x-range" = "[1, inf)", "x-default" = "the model's own"))]
    pub num_heads: Option<PerStage<usize>>,
    /// Hidden width of the MLP as a multiple of `embed_dim`.
    #[schemars(extend("x-range" = "(0, inf)", "x-default" = "the model's own"))]
    pub mlp_ratio: Option<f64>,
    /// Number of input channels. In training 1, for grey images, 3, or 4, with alpha; the first convolution of weights for 3 is adapted.
    #[schemars(extend("x-range" = "[1, inf)", "x-default" = "the model's own"))]
    pub in_chans: Option<usize>,
    /// Number of outputs of the classifier.
    #[schemars(extend("x-range" = "[1, inf)", "x-default" = "the number of classes of the data"))]
    pub num_classes: Option<usize>,
    /// Whether the projection to query, key and value has a bias.
    #[schemars(extend("x-default" = "the model's own"))]
    pub qkv_bias: Option<bool>,
    /// Rate of stochastic depth in the last block, rising linearly from 0 in the first. With CvT in the last stage
    /// alone.
    #[schemars(extend("x-range" = "[0, 1)", "default" = 0.0))]
    pub drop_path: Option<f64>,
    /// Dropout of attention weights.
    #[schemars(extend("x-range" = "[0, 1)", "default" = 0.0))]
    pub attn_drop: Option<f64>,
    /// What the classifier reads: the class token, the mean of the patches, or an attention over them. ViT.
    #[schemars(extend("x-default" = "the model's own"))]
    pub pool: Option<Pool>,
    /// Channels of the two projections whose covariance the head reads: So-ViT.
    #[schemars(extend("x-range" = "[1, inf)", "x-default" = "the model's own"))]
    pub cov_dims: Option<[usize; 2]>,
    /// Dropout of what the last layer reads of the covariance: So-ViT.
    #[schemars(extend("x-range" = "[0, 1)", "x-default" = "the model's own"))]
    pub head_drop: Option<f64>,
    /// Which attention the blocks have. Other kinds than `dense` and `knn` are used in the blocks of ViT, PiT, CvT, T2T-ViT,
    /// TNT and So-ViT; T2T-ViT's token transformers and TNT's inner transformers stay dense then.
    pub attention: Option<AttentionConfig>,
    /// Attention of the class-attention blocks of VOLO, `dense` or `knn`; the others follow `attention`.
    pub class_attention: Option<AttentionConfig>,
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
/// The keys of blocks: their number and contents.
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
            sr_ratio,
            kv_stride,
            strides,
            stem_dim,
            token_dim,
            inner_dim,
            inner_num_heads,
            inner_stride,
            embed_dim,
            depth,
            num_heads,
            mlp_ratio,
            in_chans,
            num_classes,
            qkv_bias,
            drop_path,
            attn_drop,
            pool,
            cov_dims,
            head_drop,
            attention,
            class_attention,
        } = self;
        let keys = [
            ("img_size", img_size.is_some()),
            ("patch_size", patch_size.is_some()),
            ("patch_stride", patch_stride.is_some()),
            ("window_size", window_size.is_some()),
            ("sr_ratio", sr_ratio.is_some()),
            ("kv_stride", kv_stride.is_some()),
            ("strides", strides.is_some()),
            ("stem_dim", stem_dim.is_some()),
            ("token_dim", token_dim.is_some()),
            ("inner_dim", inner_dim.is_some()),
            ("inner_num_heads", inner_num_heads.is_some()),
            ("inner_stride", inner_stride.is_some()),
            ("embed_dim", embed_dim.is_some()),
            ("depth", depth.is_some()),
            ("num_heads", num_heads.is_some()),
            ("mlp_ratio", mlp_ratio.is_some()),
            ("in_chans", in_chans.is_some()),
            ("num_classes", num_classes.is_some()),
            ("qkv_bias", qkv_bias.is_some()),
            ("drop_path", drop_path.is_some()),
            ("attn_drop", attn_drop.is_some()),
            ("pool", pool.is_some()),
            ("cov_dims", cov_dims.is_some()),
            ("head_drop", head_drop.is_some()),
            ("attention", attention.is_some()),
            ("class_attention", class_attention.is_some()),
        ];
        keys.into_iter()
            .filter_map(|(key, given)| given.then_some(key))
    }

    /// The number of stages: as many as `depth` has entries, or the model's own.
    pub(crate) fn stages(&self, own: usize) -> usize {
        match self.depth.as_ref().map(PerStage::values) {
            Some(list) if list.len() > 1 => list.len(),
            _ => own,
        }
    }

    /// The strides of `N` steps, or the model's own. `steps` describes them in errors.
    pub(crate) fn strides<const N: usize>(
        &self,
        own: [usize; N],
        steps: &str,
    ) -> Result<[usize; N], ModelError> {
        let Some(given) = &self.strides else {
            return Ok(own);
        };
        let found = given.as_slice().try_into();
        found.map_err(|_| ModelError::ListLength {
            field: "strides",
            given: given.len(),
            expected: format!("{N}, of {steps}"),
        })
    }

    /// Channels, number and heads of identical blocks, or the model's own.
    pub(crate) fn blocks(&self, own: [usize; 3]) -> Result<[usize; 3], ModelError> {
        let [embed_dim, depth, num_heads] = own;
        Ok([
            one("embed_dim", &self.embed_dim, embed_dim, "")?,
            one("depth", &self.depth, depth, "")?,
            one("num_heads", &self.num_heads, num_heads, "")?,
        ])
    }

    /// The attention of each stage. A list of another length is refused by
    /// [`ModelConfig::with`](crate::ModelConfig::with), which knows the stages' key counts.
    pub(crate) fn attentions(
        &self,
        own: &[AttentionConfig],
        stages: usize,
    ) -> Result<Vec<AttentionConfig>, ModelError> {
        let list = match &self.attention {
            Some(given) => given.per_stage()?,
            None => own.to_vec(),
        };
        Ok(match list.first() {
            Some(first) if list.len() != stages => vec![first.clone(); stages],
            _ => list,
        })
    }
}

/// One number, if a list has no meaning; `which` continues the phrase "one number".
pub(crate) fn one(
    field: &'static str,
    given: &Option<PerStage<usize>>,
    own: usize,
    which: &str,
) -> Result<usize, ModelError> {
    each(field, given, [own], &format!("one number{which}")).map(|[one]| one)
}

/// A number for each of the `N` parts of a model: from one for all, one for each, or the model's own. `expected`
/// describes this in errors.
pub(crate) fn each<const N: usize>(
    field: &'static str,
    given: &Option<PerStage<usize>>,
    own: [usize; N],
    expected: &str,
) -> Result<[usize; N], ModelError> {
    match given.as_ref().map(PerStage::values) {
        None => Ok(own),
        Some([one]) => Ok([*one; N]),
        Some(list) => list.try_into().map_err(|_| ModelError::ListLength {
            field,
            given: list.len(),
            expected: expected.to_owned(),
        }),
    }
}

/// A number per stage, from one for all, one per stage, or the model's own.
pub(crate) fn per_stage(
    field: &'static str,
    given: &Option<PerStage<usize>>,
    own: &[usize],
    stages: usize,
) -> Result<Vec<usize>, ModelError> {
    if given.is_none() && own.len() > 1 && own.len() != stages {
        return Err(ModelError::StageListMissing {
            field,
            stages,
            own: own.len(),
        });
    }
    match given.as_ref().map_or(own, PerStage::values) {
        [one] => Ok(vec![*one; stages]),
        list => validate::per_stage(field, list.len(), stages).map(|()| list.to_vec()),
    }
}
