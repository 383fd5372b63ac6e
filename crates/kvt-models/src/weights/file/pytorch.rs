//! PyTorch's checkpoints: a pickle of names and shapes over storages of bytes, in an archive.
//!
//! A few bytes of pickle can describe a tensor of any size (a view of stride 0 repeats one number), and a few of a
//! packed archive can unpack to any number. So both are checked against the size of the file before memory is
//! allocated: PyTorch does not compress, and weights are not repeated.

use std::collections::BTreeMap;
use std::io::{BufReader, Read as _, Seek as _};
use std::path::Path;

use burn_store::bridge;
use burn_store::pytorch::{PytorchError, PytorchReader};
use burn_store::pytorch_reader::Tensor;
use fs_err::File;

use super::super::error::WeightsError;
use super::super::state_dict::StateDict;
use super::{tensor_error, unwrap_names};

/// Maximum ratio of tensor bytes to file bytes: a module under several names shares its weights.
const MOST_SHARED: u64 = 16;
/// Bytes of a header block of a TAR archive.
const TAR_BLOCK: u64 = 512;
/// The place of the magic number of a TAR archive.
const TAR_MAGIC: std::ops::Range<usize> = 257..262;

/// Reads the requested tensors.
pub(super) fn read(path: &Path, file: File, size: u64) -> Result<StateDict, WeightsError> {
    let invalid = |source| WeightsError::Pytorch {
        path: path.to_owned(),
        source: Box::new(source),
    };
    if let Some(unpacked) = unpacked_size(file).map_err(invalid)?
        && unpacked > size
    {
        return Err(WeightsError::Packed {
            path: path.to_owned(),
            unpacked,
            size,
        });
    }
    let reader = PytorchReader::new(path).map_err(invalid)?;
    // In a fixed order, so that the choice does not depend on a hash map.
    let tensors: BTreeMap<_, _> = reader.into_tensors().into_iter().collect();
    let chosen = unwrap_names(tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)));
    check_claims(path, &chosen, size)?;
    chosen
        .into_iter()
        .map(|(name, tensor)| {
            let data = bridge::into_data(bridge::from_pytorch(tensor.clone()))
                .map_err(|error| tensor_error(path, &name, error.to_string()))?;
            Ok((name, data))
        })
        .collect()
}

/// Bytes of all entries of an archive once they are unpacked; `None` if the file is not an archive.
fn unpacked_size(mut file: File) -> Result<Option<u64>, PytorchError> {
    let mut start = Vec::new();
    (&mut file).take(TAR_BLOCK).read_to_end(&mut start)?;
    file.rewind()?;
    let mut size = 0u64;
    if start.starts_with(b"PK") {
        let mut archive = zip::ZipArchive::new(BufReader::new(file))?;
        for entry in 0..archive.len() {
            size = size.saturating_add(archive.by_index_raw(entry)?.size());
        }
    } else if start.get(TAR_MAGIC) == Some(b"ustar") {
        let mut archive = tar::Archive::new(file);
        // For a sparse entry this is its full size.
        for entry in archive.entries_with_seek().map_err(PytorchError::Tar)? {
            size = size.saturating_add(entry.map_err(PytorchError::Tar)?.size());
        }
    } else {
        return Ok(None);
    }
    Ok(Some(size))
}

/// Refuses tensors that are larger than the file that holds them.
fn check_claims(path: &Path, tensors: &[(String, &Tensor)], size: u64) -> Result<(), WeightsError> {
    let mut claimed = 0u64;
    for (name, tensor) in tensors {
        // The reader has refused shapes whose number of bytes exceeds `usize`.
        let bytes = tensor.byte_len() as u64;
        if bytes > size {
            let shape = tensor.shape();
            let reason = format!(
                "its shape {shape:?} means {bytes} bytes, but the whole file has {size}: \
                 save `tensor.contiguous()` instead of a view that repeats its numbers"
            );
            return Err(tensor_error(path, name, reason));
        }
        claimed = claimed.saturating_add(bytes);
    }
    if claimed > size.saturating_mul(MOST_SHARED) {
        return Err(WeightsError::Claims {
            path: path.to_owned(),
            claimed,
            size,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
