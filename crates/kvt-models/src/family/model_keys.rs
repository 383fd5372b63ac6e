//! The keys of the section `[model]`, by which a configuration changes a named model.
//!
//! [`ModelConfig::with`](crate::ModelConfig::with) refuses the keys that the family does not take, and has the others applied: those that
//! all families have by `with` in `family/common.rs`, a family's own by `with` in its `config.rs`.

use kvt_attention::{AttentionConfig, PerStage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ModelError;
use crate::family::img_size::ImgSize;
use crate::family::validate;
use crate::vit::Pool;

/// Makes the struct of the keys from lines `pub key: type, "attribute" = value;`. The attributes are keywords of JSON schema;
/// `x-range` is the interval of every number in a value, and `x-default` the default in words.
macro_rules! keys {
    ($(#[$meta:meta])* pub struct $name:ident {
        $($(#[$doc:meta])* pub $key:ident: $type:ty $(, $attribute:literal = $value:expr)*;)+
    }) => {
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(default)]
        $(#[$meta])*
        pub struct $name {
            $($(#[$doc])* #[schemars(extend($($attribute = $value),*))] pub $key: $type,)+
        }

        impl $name {
            /// The keys that are given, in the order of the fields.
            pub(crate) fn given(&self) -> impl Iterator<Item = &'static str> {
                let keys = [$((stringify!($key), self.$key.is_some()),)+];
                keys.into_iter()
                    .filter_map(|(key, given)| given.then_some(key))
            }
        }
    };
}

keys! {
    /// Changes to a named configuration, the keys of the section `[model]`; `None` keeps the model's own value.
    pub struct ModelOverrides {
        /// Height and width of the input in pixels: one number for both, or, with a ViT, a list of the two.
        pub img_size: Option<ImgSize>, "x-range" = "[1, inf)", "x-default" = "the model's own";
        /// Height and width of a patch in pixels.
        pub patch_size: Option<usize>, "x-range" = "[1, inf)", "x-default" = "the model's own";
        /// Pixels from one patch to the next, where patches may overlap: PiT and CvT.
        pub patch_stride: Option<usize>, "x-range" = "[1, inf)", "x-default" = "the model's own";
        /// Height and width of an attention window in tokens. Swin: one number. Twins: one number, or a list with one per
        /// stage of the model.
        pub window_size: Option<PerStage<usize>>, "x-range" = "[1, inf)", "x-default" = "the model's own";
        /// Height and width of the square of tokens that make one key of the whole map: Twins. One number, or a list with one
        /// per stage of the model.
        pub sr_ratio: Option<PerStage<usize>>, "x-range" = "[1, inf)", "x-default" = "the model's own";
        /// Stride of the convolution that makes keys and values: CvT.
        pub kv_stride: Option<usize>, "x-range" = "[1, inf)", "x-default" = "the model's own";
        /// The strides with which the image becomes smaller, step by step. T2T-ViT: of the three soft splits. So-ViT: of the
        /// three bottlenecks after the pooling. Visformer: of the stem (0 for no stem) and of the three patch embeddings.
        /// Twins: the patch sizes of the stages. VOLO: of the first convolution, and of the patches that its map is cut into.
        pub strides: Option<Vec<usize>>, "x-range" = "[0, inf)", "x-default" = "the model's own";
        /// Width of the convolutions before the patches: VOLO.
        pub stem_dim: Option<usize>, "x-range" = "[1, inf)", "x-default" = "the model's own";
        /// Width of a token between the soft splits: T2T-ViT.
        pub token_dim: Option<usize>, "x-range" = "[1, inf)", "x-default" = "the model's own";
        /// Width of a pixel within a patch: TNT.
        pub inner_dim: Option<usize>, "x-range" = "[1, inf)", "x-default" = "the model's own";
        /// Number of attention heads of the transformers within patches: TNT.
        pub inner_num_heads: Option<usize>, "x-range" = "[1, inf)", "x-default" = "the model's own";
        /// Stride of the convolution that makes the pixels within a patch: TNT.
        pub inner_stride: Option<usize>, "x-range" = "[1, inf)", "x-default" = "the model's own";
        /// Width of a token: one number, or a list with one per stage of the model. With Swin the number of the first
        /// stage, which doubles from stage to stage.
        pub embed_dim: Option<PerStage<usize>>, "x-range" = "[1, inf)", "x-default" = "the model's own";
        /// Number of transformer blocks: one number, or a list with one per stage of the model.
        pub depth: Option<PerStage<usize>>, "x-range" = "[1, inf)", "x-default" = "the model's own";
        /// Number of attention heads: one number, or a list with one per stage of the model.
        pub num_heads: Option<PerStage<usize>>, "x-range" = "[1, inf)", "x-default" = "the model's own";
        /// Hidden width of the MLP as a multiple of `embed_dim`.
        pub mlp_ratio: Option<f64>, "x-range" = "(0, inf)", "x-default" = "the model's own";
        /// Number of input channels. In training 1, for grey images, 3, or 4, with alpha; the first convolution of weights for 3 is adapted.
        pub in_chans: Option<usize>, "x-range" = "[1, inf)", "x-default" = "the model's own";
        /// Number of outputs of the classifier.
        pub num_classes: Option<usize>, "x-range" = "[1, inf)", "x-default" = "the number of classes of the data";
        /// Whether the projection to query, key and value has a bias.
        pub qkv_bias: Option<bool>, "x-default" = "the model's own";
        /// Rate of stochastic depth in the last block, rising linearly from 0 in the first. With CvT in the last stage
        /// alone.
        pub drop_path: Option<f64>, "x-range" = "[0, 1)", "default" = 0.0;
        /// Dropout of attention weights.
        pub attn_drop: Option<f64>, "x-range" = "[0, 1)", "default" = 0.0;
        /// What the classifier reads: the class token, the mean of the patches, or an attention over them. ViT.
        pub pool: Option<Pool>, "x-default" = "the model's own";
        /// Channels of the two projections whose covariance the head reads: So-ViT.
        pub cov_dims: Option<[usize; 2]>, "x-range" = "[1, inf)", "x-default" = "the model's own";
        /// Dropout of what the last layer reads of the covariance: So-ViT.
        pub head_drop: Option<f64>, "x-range" = "[0, 1)", "x-default" = "the model's own";
        /// Which attention the blocks have. Other kinds than `dense` and `knn` are used in the blocks of ViT, PiT, CvT, T2T-ViT,
        /// TNT and So-ViT; T2T-ViT's token transformers and TNT's inner transformers stay dense then.
        pub attention: Option<AttentionConfig>;
        /// Attention of the class-attention blocks of VOLO, `dense` or `knn`; the others follow `attention`.
        pub class_attention: Option<AttentionConfig>;
    }
}

/// The keys that every family accepts.
pub(crate) const COMMON: &[&str] = &[
    "img_size",
    "in_chans",
    "num_classes",
    "mlp_ratio",
    "drop_path",
    "attn_drop",
    "embed_dim",
    "depth",
    "num_heads",
    "attention",
];

impl ModelOverrides {
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
