//! Tensors as bytes, to send to other processes: a header in JSON, then the values.

use burn::tensor::{DType, TensorData};
use serde::{Deserialize, Serialize};

use super::WorldError;

/// Named tensors.
pub(crate) type Tensors = Vec<(String, TensorData)>;

#[derive(Serialize, Deserialize)]
struct Entry {
    name: String,
    shape: Vec<usize>,
    dtype: DType,
    bytes: usize,
}

/// Tensors as bytes.
///
/// # Errors
/// [`WorldError::State`] if their names and shapes cannot be written as JSON.
pub(crate) fn encode(tensors: &Tensors) -> Result<Vec<u8>, WorldError> {
    let entries: Vec<Entry> = tensors
        .iter()
        .map(|(name, data)| Entry {
            name: name.clone(),
            shape: data.shape().to_vec(),
            dtype: data.dtype(),
            bytes: data.as_bytes().len(),
        })
        .collect();
    let header =
        serde_json::to_vec(&entries).map_err(|error| WorldError::State(error.to_string()))?;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header);
    for (_, data) in tensors {
        bytes.extend_from_slice(data.as_bytes());
    }
    Ok(bytes)
}

/// The inverse of [`encode`].
///
/// # Errors
/// [`WorldError::State`] for other bytes.
pub(crate) fn decode(bytes: &[u8]) -> Result<Tensors, WorldError> {
    let cut_off = || WorldError::State("it is cut off".to_owned());
    let (length, rest) = bytes.split_first_chunk().ok_or_else(cut_off)?;
    let length = usize::try_from(u64::from_le_bytes(*length))
        .map_err(|error| WorldError::State(error.to_string()))?;
    let (header, mut rest) = rest.split_at_checked(length).ok_or_else(cut_off)?;
    let entries: Result<Vec<Entry>, _> = serde_json::from_slice(header);
    let entries = entries.map_err(|error| WorldError::State(error.to_string()))?;
    let tensors = entries.into_iter().map(|entry| {
        let (own, after) = rest.split_at_checked(entry.bytes).ok_or_else(cut_off)?;
        rest = after;
        let data = TensorData::from_bytes_vec(own.to_vec(), entry.shape, entry.dtype);
        Ok((entry.name, data))
    });
    tensors.collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn tensors_come_back() {
        let tensors = vec![
            (
                "a.weight".to_owned(),
                TensorData::new(vec![1.5f32, f32::NAN, -0.0, 2e-40], [2, 2]),
            ),
            ("step".to_owned(), TensorData::new(vec![7i64], [1])),
            ("empty".to_owned(), TensorData::new(Vec::<f32>::new(), [0])),
        ];
        let bytes = encode(&tensors).unwrap();
        let back = decode(&bytes).unwrap();
        for ((name, data), (other, same)) in tensors.iter().zip(&back) {
            assert_eq!(name, other);
            assert_eq!(data.shape(), same.shape());
            assert_eq!(data.dtype(), same.dtype());
            assert_eq!(data.as_bytes(), same.as_bytes());
        }
        assert_eq!(back.len(), 3);
        for part in [&bytes[..bytes.len() - 1], &bytes[..7], b""] {
            let error = decode(part).unwrap_err().to_string();
            assert!(error.contains("cut off"), "{error}");
        }
        let other = [&1_u64.to_le_bytes()[..], b"x"].concat();
        assert!(matches!(decode(&other), Err(WorldError::State(_))));
    }
}
