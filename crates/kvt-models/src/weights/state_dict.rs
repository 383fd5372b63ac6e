//! Named weights on the host.

use std::collections::BTreeMap;

use burn::tensor::TensorData;
use burn_store::bridge;

use super::error::WeightsError;
use crate::model::Model;

/// Weights on the host, by timm's names and in PyTorch's layout (a linear layer's weight is
/// `[out, in]`), in the order of the names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StateDict(BTreeMap<String, TensorData>);

impl StateDict {
    /// The weights of a model.
    ///
    /// # Errors
    ///
    /// The device cannot be read.
    pub fn from_model(model: &Model) -> Result<Self, WeightsError> {
        model
            .pytorch_tensors()
            .into_iter()
            .map(|tensor| {
                let name = tensor.name.clone();
                match bridge::into_data(tensor) {
                    Ok(data) => Ok((name, data)),
                    Err(error) => Err(WeightsError::Transfer {
                        name,
                        reason: error.to_string(),
                    }),
                }
            })
            .collect()
    }

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

    /// How many weights there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
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
