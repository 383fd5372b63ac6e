//! Errors of weights.

use std::path::PathBuf;

use burn::tensor::DType;

use crate::error::ModelError;

use super::file::ENDINGS;
use super::report::{LoadReport, Misfit};

/// Weights that cannot be read, written or loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WeightsError {
    /// The file cannot be read or written; the source names its path.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// There is no such file.
    #[error("no file `{}`", .0.display())]
    Missing(PathBuf),
    /// The file has the ending of an unsupported format.
    #[error(
        "`{}` has an unknown ending: weights are read from {}",
        .0.display(), ENDINGS
    )]
    UnknownFormat(PathBuf),
    /// A folder, a pipe or a device.
    #[error("`{}` is not a regular file: weights are read only from files", .0.display())]
    NotAFile(PathBuf),
    /// The placeholder that Git keeps instead of a file that is stored elsewhere.
    #[error(
        "`{}` is a Git LFS pointer, not the weights: run `git lfs pull` in its repository",
        .0.display()
    )]
    LfsPointer(PathBuf),
    /// An archive that unpacks to more than its size.
    #[error(
        "`{}` has {size} bytes but unpacks to {unpacked}: PyTorch does not compress checkpoints; save it again with `torch.save`",
        path.display()
    )]
    Packed {
        /// The file.
        path: PathBuf,
        /// Bytes of its entries.
        unpacked: u64,
        /// Bytes of the file.
        size: u64,
    },
    /// Tensors whose total size exceeds what the file allows.
    #[error(
        "the tensors of `{}` claim {claimed} bytes, many times the {size} of the file: save each of them with its own numbers",
        path.display()
    )]
    Claims {
        /// The file.
        path: PathBuf,
        /// Bytes of its tensors.
        claimed: u64,
        /// Bytes of the file.
        size: u64,
    },
    /// The file is not a valid safetensors file, or cannot become one.
    #[error("`{}` is not a valid safetensors file", path.display())]
    Safetensors {
        /// The file.
        path: PathBuf,
        /// The error of the format's library.
        #[source]
        source: Box<safetensors::SafeTensorError>,
    },
    /// The file is not a valid PyTorch checkpoint.
    #[error(
        "`{}` is not a readable PyTorch checkpoint (save it in Python with `safetensors.torch.save_file` instead)",
        path.display()
    )]
    Pytorch {
        /// The file.
        path: PathBuf,
        /// The error of the format's library.
        #[source]
        source: Box<burn_store::pytorch::PytorchError>,
    },
    /// A tensor of the file cannot be read.
    #[error("`{}`: tensor `{name}` cannot be read: {reason}", path.display())]
    Tensor {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// Why.
        reason: String,
    },
    /// The file has no tensors.
    #[error(
        "`{}` has no tensors: expected a state dict, on its own or under a key such as `model` or `state_dict`",
        .0.display()
    )]
    Empty(PathBuf),
    /// A weight of another kind than floating point.
    #[error("`{name}` has the type {dtype:?}: expected floating-point weights")]
    NotFloat {
        /// The tensor.
        name: String,
        /// Its type.
        dtype: DType,
    },
    /// A weight that has become NaN or infinite.
    #[error(
        "`{name}` holds NaN or infinite numbers ({count}): such a model predicts nothing; take other weights, such as those of an earlier checkpoint"
    )]
    NotFinite {
        /// The first of them.
        name: String,
        /// The count of these numbers.
        count: usize,
    },
    /// Keys are missing or have another shape.
    #[error("the weights do not fit the model: {}", report.problems())]
    Incompatible {
        /// The outcome of every key.
        report: LoadReport,
        /// Which parts do not fit.
        misfit: Misfit,
    },
    /// Weights of another family of models, according to their names.
    #[error(
        "the weights are of a model of the family {found}, but `{model}` is of {family}: name the model that they are for"
    )]
    OtherFamily {
        /// The family that the names indicate.
        found: &'static str,
        /// The model.
        model: String,
        /// Its family.
        family: &'static str,
    },
    /// Weights of another model that has the names of this one.
    #[error("`{signature}` identifies the weights as those of a model {difference}: {hint}")]
    Variant {
        /// The weight that identifies the other model.
        signature: &'static str,
        /// How the other model differs.
        difference: &'static str,
        /// What kvt has instead.
        hint: String,
    },
    /// Weights of a known family, whose parts no model has together.
    #[error(
        "the weights are of a {family}{}: no model of `kvt models list` has these parts together, so kvt cannot load them",
        parts.iter().map(|part| format!(" {part}")).collect::<Vec<_>>().join(",")
    )]
    NoModel {
        /// The family.
        family: &'static str,
        /// What they have that not all models of the family have, in words.
        parts: Vec<&'static str>,
    },
    /// Relative positions of windows of another size, for the backbone of a dense network.
    #[error(
        "`{name}` is of windows of {found} x {found} tokens, but the model has {expected} x {expected}: {hint}"
    )]
    Window {
        /// The table.
        name: String,
        /// Side of the windows of the weights, in tokens.
        found: usize,
        /// Side of the windows of the model.
        expected: usize,
        /// What to change.
        hint: String,
    },
    /// What a model with LoRA resumes from lacks a part.
    #[error(
        "there is no `{name}` of the shape {expected:?}: it is of another model, or of other `lora` settings"
    )]
    Factor {
        /// The factor, or the weight that it adapts.
        name: String,
        /// Its shape.
        expected: Vec<usize>,
    },
    /// A model that the weights cannot be for.
    #[error(transparent)]
    Model(Box<ModelError>),
    /// A parameter cannot be moved between host and device.
    #[error("`{name}` cannot be transferred: {reason}")]
    Transfer {
        /// The parameter.
        name: String,
        /// Why.
        reason: String,
    },
}
