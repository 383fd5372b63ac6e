//! The weights of a DeiT, looked up by name.

use burn::tensor::{Device, Tensor};
use kvt_models::Model;
use kvt_models::vit::VitConfig;
use kvt_models::weights::StateDict;

use super::AttributionError;
use kvt_train::error::TrainError;

/// A linear layer in PyTorch's layout, or a norm.
pub(super) struct Affine<const D: usize> {
    /// `[outputs, inputs]` of a layer, `[channels]` of a norm.
    pub(super) weight: Tensor<D>,
    /// `[outputs]` or `[channels]`; zeros for a layer without bias.
    pub(super) bias: Tensor<1>,
}

/// The weights of a block.
pub(super) struct BlockWeights {
    pub(super) norm1: Affine<1>,
    pub(super) qkv: Affine<2>,
    pub(super) proj: Affine<2>,
    pub(super) norm2: Affine<1>,
    pub(super) fc1: Affine<2>,
    pub(super) fc2: Affine<2>,
}

/// The weights after the embedding.
pub(super) struct Weights {
    pub(super) blocks: Vec<BlockWeights>,
    pub(super) norm: Affine<1>,
    pub(super) head: Affine<2>,
}

impl Weights {
    /// Copies the weights of a model to a device, without autodiff.
    pub(super) fn of(
        model: &Model,
        config: &VitConfig,
        device: &Device,
    ) -> Result<Self, AttributionError> {
        let state = StateDict::from_model(model).map_err(TrainError::from)?;
        let get = Reader { state, device };
        let block = |number: usize| -> Result<BlockWeights, AttributionError> {
            let name = |part: &str| format!("blocks.{number}.{part}");
            Ok(BlockWeights {
                norm1: get.affine(&name("norm1"))?,
                qkv: get.affine(&name("attn.qkv"))?,
                proj: get.affine(&name("attn.proj"))?,
                norm2: get.affine(&name("norm2"))?,
                fc1: get.affine(&name("mlp.fc1"))?,
                fc2: get.affine(&name("mlp.fc2"))?,
            })
        };
        Ok(Self {
            blocks: (0..config.depth).map(block).collect::<Result<_, _>>()?,
            norm: get.affine("norm")?,
            head: get.affine("head")?,
        })
    }
}

struct Reader<'a> {
    state: StateDict,
    device: &'a Device,
}

impl Reader<'_> {
    fn affine<const D: usize>(&self, name: &str) -> Result<Affine<D>, AttributionError> {
        let weight: Tensor<D> = self.tensor(&format!("{name}.weight"))?;
        let bias = format!("{name}.bias");
        let bias = match self.state.get(&bias) {
            Some(_) => self.tensor(&bias)?,
            None => Tensor::zeros([weight.dims()[0]], self.device),
        };
        Ok(Affine { weight, bias })
    }

    fn tensor<const D: usize>(&self, name: &str) -> Result<Tensor<D>, AttributionError> {
        let found = self.state.get(name);
        let found = found.filter(|data| data.shape().as_slice().len() == D);
        let found = found.ok_or_else(|| AttributionError::Weight(name.to_owned()))?;
        let data = found.clone().convert::<f32>();
        Ok(Tensor::from_data(data, self.device))
    }
}
