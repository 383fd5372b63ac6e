//! Why there is no attribution.

use crate::error::TrainError;

/// Why there is no attribution.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttributionError {
    /// Another family.
    #[error(
        "Transformer Attribution is not defined for `{name}`: its rules are for a ViT with a class token in all blocks; take a \
         DeiT, or `kvt attention-map`, which needs attention weights alone"
    )]
    Family {
        /// The model.
        name: String,
    },
    /// Two heads.
    #[error(
        "Transformer Attribution is not defined for `{name}`: it predicts by two tokens, and the rules are for one; take a DeiT \
         without distillation token"
    )]
    Distilled {
        /// The model.
        name: String,
    },
    /// Another attention.
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
    /// No such class.
    #[error("there is no class {class}: the model has {classes}, from 0 on")]
    Class {
        /// What was asked for.
        class: usize,
        /// Classes of the model.
        classes: usize,
    },
    /// A weight is missing or has another shape.
    #[error("the model has no weight `{name}` of {expected} numbers")]
    Weight {
        /// Its name.
        name: String,
        /// Numbers that it should have.
        expected: usize,
    },
    /// The rules saw another network than the model.
    #[error("the blocks of the model could not be followed: {0}")]
    Blocks(&'static str),
    /// The model or the device.
    #[error(transparent)]
    Train(#[from] TrainError),
}
