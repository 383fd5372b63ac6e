//! Why a model cannot be exported.

use burn::tensor::CaptureError;
use kvt_models::ModelError;
use kvt_models::weights::WeightsError;

/// A model that the format cannot hold, or a file that does not compute what the model computes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// An operation that no operator of the format stands for.
    #[error(
        "`{operation}` {place} has no translation to ONNX: an attention of another kind, or none at this place, may have one"
    )]
    Operation {
        /// Burn's name of the operation.
        operation: String,
        /// Where in the model.
        place: String,
    },
    /// Numbers of a type that the format lacks.
    #[error("numbers of type {kind} {place} have no translation to ONNX")]
    Type {
        /// The type.
        kind: String,
        /// Where in the model.
        place: String,
    },
    /// What a model computes depends on the batch in a way that is not translated.
    #[error(
        "`{operation}` {place} depends on the number of images in a way that one graph cannot have: fix it with `--batch N`"
    )]
    Batch {
        /// Burn's name of the operation.
        operation: String,
        /// Where in the model.
        place: String,
    },
    /// A number that the model computes from how many images there are.
    #[error(
        "`{operation}` {place} computes with {first} for one number of images and with {second} for another, and one graph has one number: fix the batch with `--batch N`"
    )]
    Number {
        /// Burn's name of the operation.
        operation: String,
        /// Where in the model.
        place: String,
        /// In the first recording.
        first: f64,
        /// In the second.
        second: f64,
    },
    /// A kind of attention that reads numbers on the host, or that no test has exported.
    #[error("stage `{stage}` has the attention `{kind}`: only `dense` and `knn` are exported")]
    Kind {
        /// The stage.
        stage: String,
        /// Its attention.
        kind: &'static str,
    },
    /// The model could not be built again.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Its weights could not be copied.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// The forward pass could not be recorded.
    #[error("the forward pass could not be recorded: {0}")]
    Record(CaptureError),
    /// A forward pass that reads no images or computes no logits.
    #[error("the recorded forward pass has no images or no logits")]
    Nothing,
    /// More bytes than a file of the format can have.
    #[error("the file would have {0} bytes, and ONNX allows 2147483647: take a smaller model")]
    Size(usize),
    /// The logits of the model itself could not be computed.
    #[error("the model's own logits could not be computed: {0}")]
    Logits(String),
    /// The program that checks the file does not run it.
    #[error("the file was not written, since tract does not run it: {0}")]
    Check(String),
    /// The file computes something else.
    #[error(
        "the file was not written, since its logits differ from the model's by up to {difference:e}, where {tolerance:e} is allowed"
    )]
    Differs {
        /// The largest difference.
        difference: f32,
        /// What is allowed.
        tolerance: f32,
    },
}
