//! Named weights on the host.

use std::collections::BTreeMap;

use burn::tensor::{DType, TensorData};

/// Weights on the host, by timm's names and in PyTorch's layout (a linear layer's weight is
/// `[out, in]`), in the order of the names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StateDict(BTreeMap<String, TensorData>);

impl StateDict {
    /// The weight of this name.
    pub fn get(&self, name: &str) -> Option<&TensorData> {
        self.0.get(name)
    }

    /// Adds a weight, or replaces the one of this name.
    pub fn insert(&mut self, name: impl Into<String>, data: TensorData) {
        self.0.insert(name.into(), data);
    }

    /// All weights, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &TensorData)> {
        self.0.iter().map(|(name, data)| (name.as_str(), data))
    }

    /// The weights that hold NaN or infinite numbers, with how many of them.
    pub fn not_finite(&self) -> impl Iterator<Item = (&str, usize)> {
        self.iter()
            .map(|(name, data)| (name, not_finite(data)))
            .filter(|(_, count)| *count > 0)
    }

    /// How many weights there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// How many of the numbers are NaN or infinite, or would be in 32 bits.
pub(crate) fn not_finite(data: &TensorData) -> usize {
    let count = |numbers: &[f32]| numbers.iter().filter(|x| !x.is_finite()).count();
    let dtype = data.dtype();
    if dtype == DType::F32 {
        data.as_slice::<f32>().map_or(0, count)
    } else if dtype.is_float() {
        let single = data.clone().convert::<f32>();
        single.as_slice::<f32>().map_or(0, count)
    } else {
        0
    }
}

impl FromIterator<(String, TensorData)> for StateDict {
    fn from_iter<I: IntoIterator<Item = (String, TensorData)>>(weights: I) -> Self {
        Self(weights.into_iter().collect())
    }
}

impl IntoIterator for StateDict {
    type Item = (String, TensorData);
    type IntoIter = std::collections::btree_map::IntoIter<String, TensorData>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_types_are_looked_at_in_32_bits() {
        let half = TensorData::new(vec![1.0f32, f32::INFINITY], [2]).convert_dtype(DType::F16);
        let double = TensorData::new(vec![1e300f64, 1.0], [2]);
        let count = TensorData::new(vec![7i64], [1]);
        assert_eq!([&half, &double, &count].map(not_finite), [1, 1, 0]);
    }
}
