//! The weights of a model, read from its device.

use burn::tensor::TensorData;
use burn_store::{bridge, burn_pack};

use crate::model::Model;
use crate::weights::{StateDict, WeightsError, not_finite};

impl StateDict {
    /// The weights of a model.
    ///
    /// # Errors
    ///
    /// The device cannot be read.
    pub fn from_model(model: &Model) -> Result<Self, WeightsError> {
        model.pytorch_tensors().into_iter().map(on_host).collect()
    }
}

impl Model {
    /// Refuses weights that are NaN or infinite: the logits would be, too, whatever the images are.
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

/// A parameter, read from its device.
pub(crate) fn on_host(tensor: burn_pack::Tensor) -> Result<(String, TensorData), WeightsError> {
    let name = tensor.name.clone();
    match bridge::into_data(tensor) {
        Ok(data) => Ok((name, data)),
        Err(error) => Err(WeightsError::Transfer {
            name,
            reason: error.to_string(),
        }),
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
            img_size: Some(16.into()),
            patch_size: Some(8),
            embed_dim: Some(6.into()),
            depth: Some(2.into()),
            num_classes: Some(3),
            ..ModelOverrides::default()
        };
        let config = ModelConfig::by_name("deit_tiny_patch16_224")
            .unwrap()
            .with(&small)
            .unwrap();
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
}
