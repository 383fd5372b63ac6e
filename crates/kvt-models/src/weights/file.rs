//! State dicts in files.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

use burn::tensor::{BoolStore, DType, TensorData};
use burn_store::bridge;
use burn_store::pytorch::PytorchReader;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

use super::error::WeightsError;
use super::state_dict::StateDict;

/// Keys under which checkpoints nest a state dict, the one to prefer first: averaged weights are
/// the ones that were published.
const NESTS: [&str; 5] = [
    "state_dict_ema",
    "model_ema",
    "state_dict",
    "model",
    "model_state_dict",
];
/// What wrappers put before every name: PyTorch's, and modules of Lightning by their usual field.
const WRAPPERS: [&str; 3] = ["module", "_orig_mod", "model"];

/// Reads the weights of a `.safetensors` file, or of a PyTorch checkpoint (`.pth`, `.pt`, `.bin`).
///
/// A state dict nested in a checkpoint (under `model`, `state_dict`, ...) is found. Half precision
/// is widened to 32 bits, double precision narrowed.
///
/// # Errors
///
/// The file cannot be read, is of no known format, or has no tensors.
pub fn read(path: &Path) -> Result<StateDict, WeightsError> {
    let stored = read_as_stored(path)?;
    Ok(stored
        .into_iter()
        .map(|(name, data)| (name, single_precision(data)))
        .collect())
}

/// As [`read`], with every tensor in the type that the file has it in.
///
/// # Errors
///
/// As [`read`].
pub fn read_as_stored(path: &Path) -> Result<StateDict, WeightsError> {
    let ending = path.extension().and_then(|ending| ending.to_str());
    let weights = match ending {
        Some("safetensors") => read_safetensors(path)?,
        Some("pth" | "pt" | "bin") => read_pytorch(path)?,
        _ => {
            return Err(WeightsError::UnknownFormat {
                path: path.to_owned(),
            });
        }
    };
    if weights.is_empty() {
        return Err(WeightsError::Empty {
            path: path.to_owned(),
        });
    }
    Ok(weights)
}

/// Writes weights as a `.safetensors` file that Python reads under the same names. The file is
/// written whole or not at all.
///
/// # Errors
///
/// The file cannot be written, or a weight has a type the format lacks.
pub fn write(
    path: &Path,
    weights: &StateDict,
    metadata: &BTreeMap<String, String>,
) -> Result<(), WeightsError> {
    let invalid = |source| WeightsError::Safetensors {
        path: path.to_owned(),
        source,
    };
    let views = weights
        .iter()
        .map(|(name, data)| {
            let dtype = safetensors_dtype(data.dtype()).ok_or_else(|| WeightsError::NotFloat {
                name: name.to_owned(),
                dtype: data.dtype(),
            })?;
            let view = TensorView::new(dtype, data.shape().to_vec(), data.as_bytes());
            Ok((name, view.map_err(invalid)?))
        })
        .collect::<Result<Vec<_>, WeightsError>>()?;
    let metadata = (!metadata.is_empty()).then(|| metadata.clone().into_iter().collect());
    let bytes = safetensors::serialize(views, metadata).map_err(invalid)?;

    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let in_path = |error: std::io::Error| {
        std::io::Error::new(
            error.kind(),
            format!("failed to write `{}`: {error}", path.display()),
        )
    };
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        // A temporary file is private by default; weights get what the umask leaves.
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let mut file = builder.tempfile_in(folder).map_err(in_path)?;
    file.write_all(&bytes).map_err(in_path)?;
    file.as_file().sync_all().map_err(in_path)?;
    file.persist(path).map_err(|error| in_path(error.error))?;
    Ok(())
}

fn read_safetensors(path: &Path) -> Result<StateDict, WeightsError> {
    let bytes = fs_err::read(path)?;
    let file = SafeTensors::deserialize(&bytes).map_err(|source| WeightsError::Safetensors {
        path: path.to_owned(),
        source,
    })?;
    unwrap_names(file.iter())
        .into_iter()
        .map(|(name, view)| {
            let unreadable = |reason| tensor_error(path, &name, reason);
            let dtype = burn_dtype(view.dtype())
                .ok_or_else(|| unreadable(format!("its type {} is not supported", view.dtype())))?;
            let data = TensorData::try_from_bytes_vec(view.data().to_vec(), view.shape(), dtype)
                .map_err(|error| unreadable(error.to_string()))?;
            Ok((name, data))
        })
        .collect()
}

fn read_pytorch(path: &Path) -> Result<StateDict, WeightsError> {
    fs_err::metadata(path)?;
    let reader = PytorchReader::new(path).map_err(|source| WeightsError::Pytorch {
        path: path.to_owned(),
        source: Box::new(source),
    })?;
    // In a fixed order, so that what is chosen does not depend on a hash map.
    let tensors: BTreeMap<_, _> = reader.into_tensors().into_iter().collect();
    unwrap_names(tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)))
        .into_iter()
        .map(|(name, tensor)| {
            let data = bridge::into_data(bridge::from_pytorch(tensor.clone()))
                .map_err(|error| tensor_error(path, &name, error.to_string()))?;
            Ok((name, data))
        })
        .collect()
}

/// The tensors of the nested state dict, where there is one, under the names of the bare model.
fn unwrap_names<'a, T>(tensors: impl Iterator<Item = (&'a str, T)>) -> Vec<(String, T)> {
    let mut tensors: Vec<(&str, T)> = tensors.collect();
    let has = |tensors: &[(&str, T)], nest: &str| {
        tensors.iter().any(|(name, _)| strip(name, nest).is_some())
    };
    if let Some(nest) = NESTS.into_iter().find(|nest| has(&tensors, nest)) {
        tensors = strip_all(tensors, nest);
    }
    while let Some(wrapper) = WRAPPERS.into_iter().find(|nest| has(&tensors, nest)) {
        tensors = strip_all(tensors, wrapper);
    }
    tensors
        .into_iter()
        .map(|(name, tensor)| (name.to_owned(), tensor))
        .collect()
}

fn strip<'a>(name: &'a str, nest: &str) -> Option<&'a str> {
    name.strip_prefix(nest)?.strip_prefix('.')
}

fn strip_all<'a, T>(tensors: Vec<(&'a str, T)>, nest: &str) -> Vec<(&'a str, T)> {
    tensors
        .into_iter()
        .filter_map(|(name, tensor)| Some((strip(name, nest)?, tensor)))
        .collect()
}

/// Floating-point data in 32 bits; anything else as it is.
fn single_precision(data: TensorData) -> TensorData {
    if data.dtype().is_float() && data.dtype() != DType::F32 {
        data.convert::<f32>()
    } else {
        data
    }
}

fn tensor_error(path: &Path, name: &str, reason: String) -> WeightsError {
    WeightsError::Tensor {
        path: path.to_owned(),
        name: name.to_owned(),
        reason,
    }
}

/// The types both sides have.
const DTYPES: [(DType, Dtype); 14] = [
    (DType::F64, Dtype::F64),
    (DType::F32, Dtype::F32),
    (DType::F16, Dtype::F16),
    (DType::BF16, Dtype::BF16),
    (DType::I64, Dtype::I64),
    (DType::I32, Dtype::I32),
    (DType::I16, Dtype::I16),
    (DType::I8, Dtype::I8),
    (DType::U64, Dtype::U64),
    (DType::U32, Dtype::U32),
    (DType::U16, Dtype::U16),
    (DType::U8, Dtype::U8),
    // One byte each, whatever is in it.
    (DType::Bool(BoolStore::U8), Dtype::BOOL),
    (DType::Bool(BoolStore::Native), Dtype::BOOL),
];

fn burn_dtype(dtype: Dtype) -> Option<DType> {
    let pair = DTYPES.into_iter().find(|(_, theirs)| *theirs == dtype);
    pair.map(|(ours, _)| ours)
}

fn safetensors_dtype(dtype: DType) -> Option<Dtype> {
    let pair = DTYPES.into_iter().find(|(ours, _)| *ours == dtype);
    pair.map(|(_, theirs)| theirs)
}

#[cfg(test)]
mod tests;
