//! The error of attribution.

use kvt_train::error::TrainError;

/// Why attribution failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttributionError {
    /// The model is not a DeiT.
    #[error(
        "Transformer Attribution is not defined for `{0}`: its rules are for a ViT with a class token in all blocks; take a \
         DeiT, or `kvt attention-map`, which needs only attention weights"
    )]
    Family(String),
    /// The model is distilled: it predicts from two tokens.
    #[error(
        "Transformer Attribution is not defined for `{0}`: it predicts from two tokens, but the rules support one; use a DeiT \
         without distillation token"
    )]
    Distilled(String),
    /// The attention is not softmax attention.
    #[error(
        "Transformer Attribution is not defined for the `{kind}` attention of `{name}`: it needs attention weights, which `dense` \
         and `knn` have"
    )]
    Kind {
        /// The model.
        name: String,
        /// The kind of its attention.
        kind: &'static str,
    },
    /// The class does not exist.
    #[error("there is no class {class}: the model has {classes}, from 0 on")]
    Class {
        /// The requested class.
        class: usize,
        /// The number of classes of the model.
        classes: usize,
    },
    /// A weight is missing or has another number of dimensions.
    #[error("the model has no weight `{0}` of a linear layer or a norm")]
    Weight(String),
    /// The blocks of the model did not yield what the rules need.
    #[error("the blocks of the model could not be followed: {0}")]
    Blocks(&'static str),
    /// The model or the device failed.
    #[error(transparent)]
    Train(#[from] TrainError),
}
