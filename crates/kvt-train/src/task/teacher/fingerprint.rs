//! The identity of a teacher.

use burn::tensor::TensorData;
use kvt_models::weights::StateDict;

/// A hash of everything that determines a teacher's outputs: BLAKE3, as four integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint([i64; 4]);

const HASH: &str = "blake3";

impl Fingerprint {
    /// The fingerprint of some tensors: their names, shapes and values.
    pub fn of(tensors: &StateDict) -> Self {
        let mut hash = blake3::Hasher::new();
        for (name, data) in tensors.iter() {
            hash.update(name.as_bytes());
            hash.update(b"\0");
            for side in data.shape().iter() {
                hash.update(&(*side as u64).to_le_bytes());
            }
            hash.update(data.as_bytes());
        }
        let hash = hash.finalize();
        let (parts, _) = hash.as_bytes().as_chunks::<8>();
        Self(std::array::from_fn(|at| {
            parts.get(at).map_or(0, |part| i64::from_le_bytes(*part))
        }))
    }

    /// The fingerprint as a file of a checkpoint.
    pub(in crate::task) fn to_state_dict(self) -> StateDict {
        let data = TensorData::new(self.0.to_vec(), [self.0.len()]);
        [(HASH.to_owned(), data)].into_iter().collect()
    }

    /// Whether a file of a checkpoint has the same fingerprint.
    pub(in crate::task) fn is_of(self, saved: &StateDict) -> bool {
        let saved = saved.get(HASH).map(|data| data.try_to_vec::<i64>());
        saved.is_some_and(|saved| saved.is_ok_and(|saved| saved == self.0))
    }
}
