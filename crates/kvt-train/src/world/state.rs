//! Tensors as bytes, to send to other processes: a header in JSON, then the values.

use burn::tensor::{DType, TensorData};
use serde::{Deserialize, Serialize};

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
pub(crate) fn encode(tensors: &Tensors) -> Vec<u8> {
    let entries: Vec<Entry> = tensors
        .iter()
        .map(|(name, data)| Entry {
            name: name.clone(),
            shape: data.shape().to_vec(),
            dtype: data.dtype(),
            bytes: data.as_bytes().len(),
        })
        .collect();
    // Names and shapes can always be written as JSON.
    let header = serde_json::to_vec(&entries).unwrap_or_default();
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header);
    for (_, data) in tensors {
        bytes.extend_from_slice(data.as_bytes());
    }
    bytes
}

/// The inverse of [`encode`]; `None` for other bytes.
pub(crate) fn decode(bytes: &[u8]) -> Option<Tensors> {
    let (length, rest) = bytes.split_first_chunk()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let (header, mut rest) = rest.split_at_checked(length)?;
    let entries: Vec<Entry> = serde_json::from_slice(header).ok()?;
    let tensors = entries.into_iter().map(|entry| {
        let (own, after) = rest.split_at_checked(entry.bytes)?;
        rest = after;
        let data = TensorData::from_bytes_vec(own.to_vec(), entry.shape, entry.dtype);
        Some((entry.name, data))
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
        let bytes = encode(&tensors);
        let back = decode(&bytes).unwrap();
        for ((name, data), (other, same)) in tensors.iter().zip(&back) {
            assert_eq!(name, other);
            assert_eq!(data.shape(), same.shape());
            assert_eq!(data.dtype(), same.dtype());
            assert_eq!(data.as_bytes(), same.as_bytes());
        }
        assert_eq!(back.len(), 3);
        assert!(decode(&bytes[..bytes.len() - 1]).is_none());
        assert!(decode(b"").is_none());
    }
}
