//! `[model]`: a named model and what differs from it, on its way into `kvt-models`.

use crate::schema::section;
use kvt_attention::{AttentionConfig, PerStage};
use kvt_models::{ModelError, ModelOverrides};

section! {
    /// The backbone: a named model and what differs from it.
    pub struct ModelSection {
        /// Name of the model, as timm has it; `kvt models list` has them.
        pub name: String = String::new(), "x-default" = "required";
        /// Height and width of the input in pixels.
        pub img_size: Option<usize> = None, "x-range" = "[1, inf)", "x-default" = "the model's own";
        /// Height and width of a patch in pixels.
        pub patch_size: Option<usize> = None, "x-range" = "[1, inf)", "x-default" = "the model's own";
        /// Pixels from one patch to the next, where patches may overlap: PiT and CvT.
        pub patch_stride: Option<usize> = None, "x-range" = "[1, inf)", "x-default" = "the model's own";
        /// Height and width of an attention window in tokens: Swin.
        pub window_size: Option<usize> = None, "x-range" = "[1, inf)", "x-default" = "the model's own";
        /// Stride of the convolution that makes keys and values: CvT.
        pub kv_stride: Option<usize> = None, "x-range" = "[1, inf)", "x-default" = "the model's own";
        /// Width of a token: one number, or a list with one per stage of the model. With Swin the number of the first
        /// stage, which doubles from stage to stage.
        pub embed_dim: Option<PerStage<usize>> = None,
            "x-range" = "[1, inf)", "x-default" = "the model's own";
        /// Number of transformer blocks: one number, or a list with one per stage of the model.
        pub depth: Option<PerStage<usize>> = None, "x-range" = "[1, inf)", "x-default" = "the model's own";
        /// Number of attention heads: one number, or a list with one per stage of the model.
        pub num_heads: Option<PerStage<usize>> = None,
            "x-range" = "[1, inf)", "x-default" = "the model's own";
        /// Hidden width of the MLP as a multiple of `embed_dim`.
        pub mlp_ratio: Option<f64> = None, "x-range" = "(0, inf)", "x-default" = "the model's own";
        /// Number of input channels.
        pub in_chans: Option<usize> = None, "x-range" = "[1, inf)", "x-default" = "the model's own";
        /// Number of outputs of the classifier.
        pub num_classes: Option<usize> = None,
            "x-range" = "[1, inf)", "x-default" = "the number of classes of the data";
        /// Whether the projection to query, key and value has a bias.
        pub qkv_bias: Option<bool> = None, "x-default" = "the model's own";
        /// Rate of stochastic depth in the last block, rising linearly from 0 in the first. With CvT in the last stage
        /// alone.
        pub drop_path: f64 = 0.0, "x-range" = "[0, 1)";
        /// Dropout of attention weights.
        pub attn_drop: f64 = 0.0, "x-range" = "[0, 1)";
        /// What every attention layer does with its scores.
        pub attention: AttentionConfig = AttentionConfig::default();
    }
}

impl ModelSection {
    /// The differences as `kvt-models` takes them, for data of so many classes where the section names no number.
    ///
    /// # Errors
    /// If lists of the attention have different lengths, or no entry.
    pub fn overrides(&self, classes: Option<usize>) -> Result<ModelOverrides, ModelError> {
        let list = |given: &PerStage<usize>| given.values().to_vec();
        let sizes = |given: &Option<_>| given.as_ref().map_or_else(Vec::new, list);
        Ok(ModelOverrides {
            img_size: self.img_size,
            patch_size: self.patch_size,
            patch_stride: self.patch_stride,
            window_size: self.window_size,
            kv_stride: self.kv_stride,
            embed_dim: sizes(&self.embed_dim),
            depth: sizes(&self.depth),
            num_heads: sizes(&self.num_heads),
            mlp_ratio: self.mlp_ratio,
            in_chans: self.in_chans,
            num_classes: self.num_classes.or(classes),
            qkv_bias: self.qkv_bias,
            drop_path: Some(self.drop_path),
            attn_drop: Some(self.attn_drop),
            attention: self.attention.per_stage()?,
        })
    }
}
