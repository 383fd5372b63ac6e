//! The weights of a DeiT, looked up by name.

use burn::tensor::{Device, Tensor};
use kvt_models::Model;
use kvt_models::weights::StateDict;

use super::AttributionError;
use kvt_train::error::TrainError;

/// The weights of a model, for a device without autodiff.
pub(super) struct Weights {
    state: StateDict,
    device: Device,
}

impl Weights {
    pub(super) fn of(model: &Model, device: Device) -> Result<Self, AttributionError> {
        let state = StateDict::from_model(model).map_err(TrainError::from)?;
        Ok(Self { state, device })
    }

    /// The weight and the bias of a linear layer, `[outputs, inputs]` as in PyTorch and `[outputs]`, or of a norm, `[channels]` both.
    /// The bias is zeros for a layer without one.
    pub(super) fn affine<const D: usize>(
        &self,
        name: &str,
    ) -> Result<(Tensor<D>, Tensor<1>), AttributionError> {
        let weight: Tensor<D> = self.tensor(&format!("{name}.weight"))?;
        let bias = format!("{name}.bias");
        let bias = match self.state.get(&bias) {
            Some(_) => self.tensor(&bias)?,
            None => Tensor::zeros([weight.dims()[0]], &self.device),
        };
        Ok((weight, bias))
    }

    pub(super) fn tensor<const D: usize>(&self, name: &str) -> Result<Tensor<D>, AttributionError> {
        let found = self.state.get(name);
        let found = found.filter(|data| data.shape().as_slice().len() == D);
        let found = found.ok_or_else(|| AttributionError::Weight(name.to_owned()))?;
        let data = found.clone().convert::<f32>();
        Ok(Tensor::from_data(data, &self.device))
    }
}
