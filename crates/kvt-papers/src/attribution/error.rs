//! The error of attribution.

use kvt_train::error::TrainError;

/// Why attribution failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttributionError {
    /// The rules are not for this model.
    #[error("Transformer Attribution is not defined for `{name}`: {reason}")]
    Undefined {
        /// The model.
        name: String,
        /// Why, and which models it is defined for.
        reason: String,
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
