//! The weights of a DeiT, looked up by name.

use burn::tensor::{Device, Tensor, TensorData};
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
        let dim = config.embed_dim;
        let hidden = get.rows("blocks.0.mlp.fc1.weight");
        let block = |number: usize| -> Result<BlockWeights, AttributionError> {
            let name = |part: &str| format!("blocks.{number}.{part}");
            Ok(BlockWeights {
                norm1: get.norm(&name("norm1"), dim)?,
                qkv: get.layer(&name("attn.qkv"), [3 * dim, dim])?,
                proj: get.layer(&name("attn.proj"), [dim, dim])?,
                norm2: get.norm(&name("norm2"), dim)?,
                fc1: get.layer(&name("mlp.fc1"), [hidden, dim])?,
                fc2: get.layer(&name("mlp.fc2"), [dim, hidden])?,
            })
        };
        let classes = get.rows("head.weight");
        Ok(Self {
            blocks: (0..config.depth).map(block).collect::<Result<_, _>>()?,
            norm: get.norm("norm", dim)?,
            head: get.layer("head", [classes, dim])?,
        })
    }
}

struct Reader<'a> {
    state: StateDict,
    device: &'a Device,
}

impl Reader<'_> {
    /// The number of rows of a weight; 0 if it is missing.
    fn rows(&self, name: &str) -> usize {
        let shape = self.state.get(name).map(|data| data.shape().to_vec());
        shape.and_then(|shape| shape.first().copied()).unwrap_or(0)
    }

    fn tensor<const D: usize>(
        &self,
        name: &str,
        shape: [usize; D],
    ) -> Result<Tensor<D>, AttributionError> {
        let expected = shape.iter().product();
        let missing = || AttributionError::Weight {
            name: name.to_owned(),
            expected,
        };
        let data = self.state.get(name).ok_or_else(missing)?;
        let numbers = data.clone().convert::<f32>().try_to_vec::<f32>();
        let numbers = numbers.ok().filter(|numbers| numbers.len() == expected);
        let data = TensorData::new(numbers.ok_or_else(missing)?, shape);
        Ok(Tensor::from_data(data, self.device))
    }

    fn norm(&self, name: &str, dim: usize) -> Result<Affine<1>, AttributionError> {
        Ok(Affine {
            weight: self.tensor(&format!("{name}.weight"), [dim])?,
            bias: self.tensor(&format!("{name}.bias"), [dim])?,
        })
    }

    fn layer(&self, name: &str, shape: [usize; 2]) -> Result<Affine<2>, AttributionError> {
        let bias = format!("{name}.bias");
        Ok(Affine {
            weight: self.tensor(&format!("{name}.weight"), shape)?,
            bias: match self.state.get(&bias) {
                Some(_) => self.tensor(&bias, [shape[0]])?,
                None => Tensor::zeros([shape[0]], self.device),
            },
        })
    }
}
