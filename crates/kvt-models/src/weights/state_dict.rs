//! Named weights on the host.

use std::collections::{BTreeMap, btree_map};
use std::iter::Map;
use std::sync::Arc;

use burn::tensor::{DType, TensorData};

/// Weights on the host, by timm's names and in PyTorch's layout (a linear layer's weight is
/// `[out, in]`), in the order of the names.
///
/// A clone shares the numbers, which large models have no memory for a copy of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StateDict(BTreeMap<String, Arc<TensorData>>);

impl StateDict {
    /// The weight of this name.
    pub fn get(&self, name: &str) -> Option<&TensorData> {
        self.shared(name).map(Arc::as_ref)
    }

    /// Adds a weight, or replaces the one of this name.
    pub fn insert(&mut self, name: impl Into<String>, data: TensorData) {
        self.0.insert(name.into(), Arc::new(data));
    }

    /// All weights, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &TensorData)> {
        self.shares().map(|(name, data)| (name, data.as_ref()))
    }

    /// The weights to which `rename` gives a name, under these names. They share their numbers with this one's.
    #[must_use]
    pub fn part(&self, rename: impl Fn(&str) -> Option<String>) -> Self {
        Self::of_shares(
            self.shares()
                .filter_map(|(name, data)| Some((rename(name)?, Arc::clone(data)))),
        )
    }

    /// As [`get`](Self::get), for one that is kept without a copy of its numbers.
    pub(crate) fn shared(&self, name: &str) -> Option<&Arc<TensorData>> {
        self.0.get(name)
    }

    /// As [`iter`](Self::iter), for weights that are kept without a copy of their numbers.
    pub(crate) fn shares(&self) -> impl Iterator<Item = (&str, &Arc<TensorData>)> {
        self.0.iter().map(|(name, data)| (name.as_str(), data))
    }

    /// Weights that may be shared with others.
    pub(crate) fn of_shares(weights: impl Iterator<Item = (String, Arc<TensorData>)>) -> Self {
        Self(weights.collect())
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
        let weights = weights.into_iter();
        Self::of_shares(weights.map(|(name, data)| (name, Arc::new(data))))
    }
}

impl IntoIterator for StateDict {
    type Item = (String, TensorData);
    type IntoIter = Map<
        btree_map::IntoIter<String, Arc<TensorData>>,
        fn((String, Arc<TensorData>)) -> (String, TensorData),
    >;

    /// Numbers are copied only if they are shared.
    fn into_iter(self) -> Self::IntoIter {
        let owned: fn(_) -> _ = |(name, data)| (name, Arc::unwrap_or_clone(data));
        self.0.into_iter().map(owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Copies would be the size of the model.
    #[test]
    fn clones_and_parts_share_their_numbers() {
        let mut weights = StateDict::default();
        for name in ["backbone.norm", "head.norm"] {
            weights.insert(name, TensorData::zeros::<f32, _>([2]));
        }
        let numbers = |data: &TensorData| data.as_bytes().as_ptr();
        let first = weights.get("backbone.norm").map(numbers);
        let part = weights
            .clone()
            .part(|name| name.strip_prefix("backbone.").map(str::to_owned));
        assert_eq!(part.len(), 1);
        assert!(first.is_some() && part.get("norm").map(numbers) == first);
        // The last owner gives them away, an earlier one gives a copy.
        let given = |weights: StateDict| weights.into_iter().next().map(|(_, data)| data);
        let copy = given(part.clone());
        assert!(copy.is_some() && copy.as_ref().map(numbers) != first);
        drop(weights);
        assert_eq!(given(part).as_ref().map(numbers), first);
    }

    #[test]
    fn other_types_are_looked_at_in_32_bits() {
        let half = TensorData::new(vec![1.0f32, f32::INFINITY], [2]).convert_dtype(DType::F16);
        let double = TensorData::new(vec![1e300f64, 1.0], [2]);
        let count = TensorData::new(vec![7i64], [1]);
        assert_eq!([&half, &double, &count].map(not_finite), [1, 1, 0]);
    }
}
