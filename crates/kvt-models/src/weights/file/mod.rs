//! State dicts in files.

mod pytorch;
mod safetensors;

use std::collections::BTreeMap;
use std::io::{Read as _, Seek as _};
use std::path::Path;

use burn::tensor::{DType, TensorData};
use fs_err::File;

pub use self::safetensors::write;
use super::error::WeightsError;
use super::state_dict::StateDict;

/// How the file begins that Git keeps in place of one that is stored elsewhere.
const LFS_POINTER: &[u8] = b"version https://git-lfs.github.com/spec/";

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
/// is widened to 32 bits, double precision narrowed. What a file claims to hold is compared with its
/// size before memory is taken for it.
///
/// # Errors
///
/// The file cannot be read, is no regular one or of no known format, claims more than it can hold, or
/// has no tensors.
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
    let read = match ending {
        Some("safetensors") => safetensors::read,
        // Authors call their checkpoints `.pth.tar`, although these are no tar archives.
        Some("pth" | "pt" | "bin" | "tar") => pytorch::read,
        _ => {
            return Err(WeightsError::UnknownFormat {
                path: path.to_owned(),
            });
        }
    };
    let (file, size) = open(path)?;
    let weights = read(path, file, size)?;
    if weights.is_empty() {
        return Err(WeightsError::Empty {
            path: path.to_owned(),
        });
    }
    Ok(weights)
}

/// What a `.safetensors` file says of itself, text by name. Nothing where it says nothing, and of files of another format.
///
/// # Errors
///
/// The file cannot be read, is no regular one, or is no valid safetensors file.
pub fn metadata(path: &Path) -> Result<BTreeMap<String, String>, WeightsError> {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("safetensors") => {
            let (file, size) = open(path)?;
            safetensors::metadata(path, file, size)
        }
        _ => Ok(BTreeMap::new()),
    }
}

/// Opens a regular file and tells its size: a pipe may wait for ever, and a device has no end.
fn open(path: &Path) -> Result<(File, u64), WeightsError> {
    match fs_err::metadata(path) {
        Ok(found) if !found.is_file() => {
            return Err(WeightsError::NotAFile {
                path: path.to_owned(),
            });
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(WeightsError::Missing {
                path: path.to_owned(),
            });
        }
        // What else is wrong is best told by opening it.
        _ => {}
    }
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    let mut start = Vec::new();
    (&mut file)
        .take(LFS_POINTER.len() as u64)
        .read_to_end(&mut start)?;
    if start == LFS_POINTER {
        return Err(WeightsError::LfsPointer {
            path: path.to_owned(),
        });
    }
    file.rewind()?;
    Ok((file, size))
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

#[cfg(test)]
mod tests;
