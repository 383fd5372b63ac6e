//! `[model]`: a named model and what differs from it, on its way into `kvt-models`.

use crate::schema::section;
use kvt_attention::{DenseConfig, Implementation, KnnConfig, Neighbors, NeighborsError, Selection};
use kvt_models::ModelOverrides;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    /// If a number of neighbours makes no sense.
    pub fn overrides(&self, classes: Option<usize>) -> Result<ModelOverrides, NeighborsError> {
        let sizes = |given: &Option<PerStage<usize>>| given.clone().unwrap_or_default().0;
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
            attention: self.attention.stages()?,
        })
    }
}

section! {
    /// What every attention layer does with its scores.
    ///
    /// The keys of all kinds; those that the kind has no use for are `None` in a plan.
    pub struct AttentionConfig {
        /// Dense attention, or k-NN attention, in which each query keeps only its k best keys.
        pub kind: AttentionKind = AttentionKind::Dense;
        /// How many keys a query keeps, or a list with one entry per stage of the model.
        pub neighbors: Option<PerStage<NeighborCount>> = None, "default" = 0.5, "x-kinds" = ["knn"];
        /// How keys are ranked.
        pub selection: Option<Selection> = None, "default" = Selection::default(), "x-kinds" = ["knn"];
        /// How k-NN attention is computed.
        pub implementation: Option<Implementation> = None, "default" = Implementation::default(), "x-kinds" = ["knn"];
        /// Divisor of the scaled scores before the softmax. Beyond its range all scores are the same in 32 bits, or not
        /// finite.
        pub temperature: f64 = 1.0, "x-range" = "[1e-6, 1e6]";
    }
}

impl AttentionConfig {
    /// Fills in the keys of the kind, and leaves those of other kinds unset.
    pub(super) fn complete(&mut self) {
        match self.kind {
            AttentionKind::Dense => {
                *self = Self {
                    temperature: self.temperature,
                    ..Self::default()
                };
            }
            AttentionKind::Knn => {
                let half = || PerStage(vec![NeighborCount::Share(0.5)]);
                self.neighbors.get_or_insert_with(half);
                self.selection.get_or_insert_default();
                self.implementation.get_or_insert_default();
            }
        }
    }

    /// One attention for all stages, or one per stage.
    fn stages(&self) -> Result<Vec<kvt_attention::AttentionConfig>, NeighborsError> {
        let attention = |neighbors: Neighbors| {
            kvt_attention::AttentionConfig::Knn(KnnConfig {
                neighbors: neighbors.into(),
                selection: self.selection.unwrap_or_default(),
                implementation: self.implementation.unwrap_or_default(),
                temperature: self.temperature,
            })
        };
        match (self.kind, &self.neighbors) {
            (AttentionKind::Knn, Some(PerStage(counts))) => counts
                .iter()
                .map(|&count| match count {
                    NeighborCount::Count(count) => Neighbors::count(count).map(attention),
                    NeighborCount::Share(share) => Neighbors::fraction(share).map(attention),
                })
                .collect(),
            _ => Ok(vec![kvt_attention::AttentionConfig::Dense(DenseConfig {
                temperature: self.temperature,
            })]),
        }
    }
}

/// The kind of attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AttentionKind {
    /// Every query sees every key.
    Dense,
    /// Each query keeps only its k best keys.
    Knn,
}

/// How many keys a query keeps.
// The order matters: serde takes an integer as a count before it tries a float.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum NeighborCount {
    /// This many.
    #[schemars(title = "a count", extend("x-range" = "[1, inf)"))]
    Count(usize),
    /// This share of the keys.
    #[schemars(title = "a share of the keys", extend("x-range" = "(0, 1]"))]
    Share(f64),
}

/// One value for all stages of a model, or one per stage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    from = "OneOrList<T>",
    into = "OneOrList<T>",
    bound(serialize = "T: Clone + Serialize")
)]
pub struct PerStage<T>(pub Vec<T>);

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum OneOrList<T> {
    One(T),
    List(#[schemars(length(min = 1))] Vec<T>),
}

impl<T> From<OneOrList<T>> for PerStage<T> {
    fn from(written: OneOrList<T>) -> Self {
        Self(match written {
            OneOrList::One(one) => vec![one],
            OneOrList::List(list) => list,
        })
    }
}

impl<T: Clone> From<PerStage<T>> for OneOrList<T> {
    fn from(PerStage(list): PerStage<T>) -> Self {
        match list.as_slice() {
            [one] => Self::One(one.clone()),
            _ => Self::List(list),
        }
    }
}
