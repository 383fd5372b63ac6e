//! Named weights on the host.

use std::collections::BTreeMap;

use burn::tensor::{DType, TensorData};
use burn_store::{bridge, burn_pack};

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
        model.pytorch_tensors().into_iter().map(on_host).collect()
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

/// A parameter, read from its device.
fn on_host(tensor: burn_pack::Tensor) -> Result<(String, TensorData), WeightsError> {
    let name = tensor.name.clone();
    match bridge::into_data(tensor) {
        Ok(data) => Ok((name, data)),
        Err(error) => Err(WeightsError::Transfer {
            name,
            reason: error.to_string(),
        }),
    }
}

/// How many of the numbers are NaN or infinite, or would be in 32 bits.
fn not_finite(data: &TensorData) -> usize {
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

impl Model {
    /// Refuses weights that are no numbers: whatever the images are, the logits would be none either.
    ///
    /// # Errors
    ///
    /// [`WeightsError::NotFinite`] with the first parameter that holds NaN or an infinite number. The
    /// device cannot be read.
    pub fn check_finite(&self) -> Result<(), WeightsError> {
        for tensor in self.pytorch_tensors() {
            let (name, data) = on_host(tensor)?;
            let count = not_finite(&data);
            if count > 0 {
                return Err(WeightsError::NotFinite { name, count });
            }
        }
        Ok(())
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
    #![expect(clippy::unwrap_used, reason = "tests")]
    use burn::tensor::Device;
    use kvt_ops::Key;

    use super::*;
    use crate::weights::LoadOptions;
    use crate::{ModelConfig, ModelOverrides};

    fn model() -> Model {
        let small = ModelOverrides {
            img_size: Some(16),
            patch_size: Some(8),
            embed_dim: vec![6],
            depth: vec![2],
            num_classes: Some(3),
            ..ModelOverrides::default()
        };
        let config = ModelConfig::by_name("deit_tiny_patch16_224").unwrap();
        let config = config.with(&small).unwrap();
        config.init(&Device::flex(), Key::new(1)).unwrap()
    }

    #[test]
    fn the_first_parameter_that_is_no_number_is_named() {
        model().check_finite().unwrap();
        let mut weights = StateDict::from_model(&model()).unwrap();
        assert_eq!(weights.not_finite().count(), 0);
        // By name the head comes first, in the model the norm.
        for (name, values) in [
            ("head.bias", [0.0, f32::NAN, f32::NAN].to_vec()),
            (
                "norm.weight",
                [1.0, 1.0, f32::NEG_INFINITY, 1.0, 1.0, 1.0].to_vec(),
            ),
        ] {
            let shape = [values.len()];
            weights.insert(name, TensorData::new(values, shape));
        }
        let found: Vec<_> = weights.not_finite().collect();
        assert_eq!(found, [("head.bias", 2), ("norm.weight", 1)]);
        let (broken, _) = model().load(&weights, LoadOptions::default()).unwrap();
        let error = broken.check_finite().unwrap_err();
        assert!(
            matches!(&error, WeightsError::NotFinite { name, count: 1 } if name == "norm.weight"),
            "{error}"
        );
    }

    #[test]
    fn other_types_are_looked_at_in_32_bits() {
        let half = TensorData::new(vec![1.0f32, f32::INFINITY], [2]).convert_dtype(DType::F16);
        let double = TensorData::new(vec![1e300f64, 1.0], [2]);
        let count = TensorData::new(vec![7i64], [1]);
        assert_eq!([&half, &double, &count].map(not_finite), [1, 1, 0]);
    }
}
