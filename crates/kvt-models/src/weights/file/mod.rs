//! State dicts in files.

mod pytorch;
mod safetensors;

use std::collections::BTreeMap;
use std::io::{Read as _, Seek as _};
use std::path::Path;

use burn::tensor::{DType, TensorData};
use fs_err::File;

pub use self::safetensors::{bytes, write};
use super::error::WeightsError;
use super::state_dict::StateDict;

/// The beginning of the placeholder that Git LFS keeps instead of a file that is stored elsewhere.
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
/// Prefixes that wrappers add to every name: PyTorch's wrappers, and Lightning modules by their usual field.
const WRAPPERS: [&str; 3] = ["module", "_orig_mod", "model"];
/// The two networks of DINO, the better one first, and the part of their names by which they are recognised: the student and
/// teacher of another distillation are two models, and neither is meant before the other.
const ROLES: [&str; 2] = ["teacher", "student"];
const BACKBONE: &str = "backbone";

/// The endings of files that [`read`] reads, for messages.
pub const ENDINGS: &str = "`.safetensors`, `.pth`, `.pt`, `.bin`, `.ckpt` or `.tar`";

/// Reads the requested tensors of an open file of so many bytes.
type Reader = fn(&Path, File, u64) -> Result<StateDict, WeightsError>;

/// The format of a file, by its ending.
fn reader(path: &Path) -> Option<Reader> {
    match path.extension()?.to_str()? {
        "safetensors" => Some(safetensors::read),
        // Authors call their checkpoints `.pth.tar`, although they are not tar archives. Lightning's are `.ckpt`.
        "pth" | "pt" | "bin" | "ckpt" | "tar" => Some(pytorch::read),
        _ => None,
    }
}

/// Whether a path has the ending of a file that [`read`] reads.
pub fn is_of_weights(path: &Path) -> bool {
    reader(path).is_some()
}

/// Reads the weights of a `.safetensors` file, or of a PyTorch checkpoint (`.pth`, `.pt`, `.bin`, Lightning's `.ckpt`, the
/// `.pth.tar` of some authors).
///
/// A state dict nested in a checkpoint (under `model`, `state_dict`, `teacher`, ...) is found. Half precision is widened to 32
/// bits, double precision narrowed. The sizes that a file claims are compared with its own before memory is
/// allocated.
///
/// # Errors
///
/// The file cannot be read, is not a regular file or not of a known format, claims more than it can hold, or has no
/// tensors.
pub fn read(path: &Path) -> Result<StateDict, WeightsError> {
    let stored = read_as_stored(path)?;
    Ok(stored
        .into_iter()
        .map(|(name, data)| (name, single_precision(data)))
        .collect())
}

/// As [`read`], with every tensor in its type in the file.
///
/// # Errors
///
/// As [`read`].
pub fn read_as_stored(path: &Path) -> Result<StateDict, WeightsError> {
    let read = reader(path).ok_or_else(|| WeightsError::UnknownFormat(path.to_owned()))?;
    let (file, size) = open(path)?;
    let weights = read(path, file, size)?;
    if weights.is_empty() {
        return Err(WeightsError::Empty(path.to_owned()));
    }
    Ok(weights)
}

/// The metadata of a `.safetensors` file, text by name. Empty without metadata, and for files of other formats.
///
/// # Errors
///
/// The file cannot be read, is not a regular file, or is not a valid safetensors file.
pub fn metadata(path: &Path) -> Result<BTreeMap<String, String>, WeightsError> {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("safetensors") => {
            let (file, size) = open(path)?;
            safetensors::metadata(path, file, size)
        }
        _ => Ok(BTreeMap::new()),
    }
}

/// Opens a regular file and returns its size: a pipe may wait for ever, and a device has no end.
fn open(path: &Path) -> Result<(File, u64), WeightsError> {
    match fs_err::metadata(path) {
        Ok(found) if !found.is_file() => {
            return Err(WeightsError::NotAFile(path.to_owned()));
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(WeightsError::Missing(path.to_owned()));
        }
        // Other errors are best reported by opening the file.
        _ => {}
    }
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    let mut start = Vec::new();
    (&mut file)
        .take(LFS_POINTER.len() as u64)
        .read_to_end(&mut start)?;
    if start == LFS_POINTER {
        return Err(WeightsError::LfsPointer(path.to_owned()));
    }
    file.rewind()?;
    Ok((file, size))
}

/// The tensors of the nested state dict, if there is one, under the names of the bare model.
fn unwrap_names<'a, T>(tensors: impl Iterator<Item = (&'a str, T)>) -> Vec<(String, T)> {
    let mut tensors: Vec<(&str, T)> = tensors.collect();
    let has = |tensors: &[(&str, T)], nest: &str| {
        tensors.iter().any(|(name, _)| strip(name, nest).is_some())
    };
    if let Some(nest) = NESTS.into_iter().find(|nest| has(&tensors, nest)) {
        tensors = strip_all(tensors, nest);
    }
    let plays = |tensors: &[(&str, T)], role: &str| {
        let mut of_role = tensors.iter().filter_map(|(name, _)| strip(name, role));
        of_role.any(|name| name.split('.').any(|part| part == BACKBONE))
    };
    while let Some(prefix) = ROLES
        .into_iter()
        .find(|role| plays(&tensors, role))
        .or_else(|| WRAPPERS.into_iter().find(|nest| has(&tensors, nest)))
    {
        tensors = strip_all(tensors, prefix);
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

/// Floating-point data in 32 bits; other data as it is.
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
