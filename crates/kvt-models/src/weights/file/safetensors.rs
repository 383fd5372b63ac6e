//! `.safetensors`: a header of names, types, shapes and places, then the bytes.

use std::collections::BTreeMap;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use burn::tensor::{BoolStore, DType, TensorData};
use fs_err::File;
use safetensors::tensor::{Metadata, TensorView};
use safetensors::{Dtype, SafeTensorError};

use super::super::error::WeightsError;
use super::super::state_dict::StateDict;
use super::{tensor_error, unwrap_names};

/// Bytes of the length of the header, at the beginning of the file.
const LENGTH: u64 = 8;
/// How a header with metadata begins.
const METADATA: &str = r#"{"__metadata__":"#;
/// The longest header that the format allows.
const LONGEST_HEADER: u64 = 100_000_000;

/// Reads the header, and then the requested tensors.
pub(super) fn read(path: &Path, mut file: File, size: u64) -> Result<StateDict, WeightsError> {
    let (header, data) = read_header(&mut file, size)?.map_err(|error| invalid(path, error))?;
    let tensors: BTreeMap<_, _> = header.tensors().into_iter().collect();
    unwrap_names(tensors.iter().map(|(name, info)| (name.as_str(), *info)))
        .into_iter()
        .map(|(name, info)| {
            let unreadable = |reason| tensor_error(path, &name, reason);
            let dtype = burn_dtype(info.dtype)
                .ok_or_else(|| unreadable(format!("its type {} is not supported", info.dtype)))?;
            // The header was checked: both are within the file.
            let (start, end) = info.data_offsets;
            let mut bytes = vec![0; end - start];
            file.seek(SeekFrom::Start(data + start as u64))?;
            file.read_exact(&mut bytes)?;
            let data = TensorData::try_from_bytes_vec(bytes, info.shape.clone(), dtype)
                .map_err(|error| unreadable(error.to_string()))?;
            Ok((name, data))
        })
        .collect()
}

/// The metadata of the file.
pub(super) fn metadata(
    path: &Path,
    mut file: File,
    size: u64,
) -> Result<BTreeMap<String, String>, WeightsError> {
    let header = read_header(&mut file, size)?;
    let (header, _) = header.map_err(|error| invalid(path, error))?;
    let texts = header.metadata().iter().flatten();
    Ok(texts
        .map(|(name, text)| (name.clone(), text.clone()))
        .collect())
}

fn invalid(path: &Path, error: SafeTensorError) -> WeightsError {
    WeightsError::Safetensors {
        path: path.to_owned(),
        source: error.into(),
    }
}

/// The header, and the place of the bytes of the tensors. The tensors follow each other without gaps and fill the
/// file, so that none is larger than it.
fn read_header(
    file: &mut File,
    size: u64,
) -> std::io::Result<Result<(Metadata, u64), SafeTensorError>> {
    if size < LENGTH {
        return Ok(Err(SafeTensorError::HeaderTooSmall));
    }
    let mut length = [0; LENGTH as usize];
    file.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    if length > LONGEST_HEADER {
        return Ok(Err(SafeTensorError::HeaderTooLarge));
    }
    if length > size - LENGTH {
        return Ok(Err(SafeTensorError::InvalidHeaderLength));
    }
    let mut header = vec![0; length as usize];
    file.read_exact(&mut header)?;
    let header: Metadata = match serde_json::from_slice(&header) {
        Ok(header) => header,
        Err(error) => return Ok(Err(SafeTensorError::InvalidHeaderDeserialization(error))),
    };
    let data = LENGTH + length;
    if header.data_len() as u64 != size - data {
        return Ok(Err(SafeTensorError::MetadataIncompleteBuffer));
    }
    Ok(Ok((header, data)))
}

/// The content of the `.safetensors` file `path` with these weights, which Python reads under the same names.
///
/// # Errors
///
/// A weight has a type the format lacks; the error names `path`.
pub fn bytes(
    path: &Path,
    weights: &StateDict,
    metadata: &BTreeMap<String, String>,
) -> Result<Vec<u8>, WeightsError> {
    let invalid = |error| invalid(path, error);
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
    if metadata.is_empty() {
        return safetensors::serialize(views, None).map_err(invalid);
    }
    let unordered = metadata.clone().into_iter().collect();
    let mut bytes = safetensors::serialize(views, Some(unordered)).map_err(invalid)?;
    // The header begins with the entries in an order that differs from file to file. In their own order they are as long.
    let ordered = serde_json::to_vec(metadata).map_err(|error| invalid(error.into()))?;
    let start = LENGTH as usize + METADATA.len();
    if let Some(entries) = bytes.get_mut(start..start + ordered.len()) {
        entries.copy_from_slice(&ordered);
    }
    Ok(bytes)
}

/// Writes weights as a `.safetensors` file that Python reads under the same names. The file is written as a whole or
/// not at all.
///
/// # Errors
///
/// The file cannot be written, or a weight has a type the format lacks.
pub fn write(
    path: &Path,
    weights: &StateDict,
    metadata: &BTreeMap<String, String>,
) -> Result<(), WeightsError> {
    let bytes = bytes(path, weights, metadata)?;
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

/// The types that both libraries have.
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
    // One byte each, whatever its value.
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
