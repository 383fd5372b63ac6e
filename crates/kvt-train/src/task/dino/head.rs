//! The head of student and teacher: an MLP, the L2 norm, and a linear layer with weight norm.

use burn::module::{Module, Param, ParamId};
use burn::nn::Linear;
use burn::tensor::{Device, Tensor, TensorData};
use kvt_attention::{Law, ParamInit};
use kvt_models::layers::Init;
use kvt_ops::{Key, gelu, linear};

use super::DinoConfig;
use crate::knn_vote::normalized;

/// `DINOHead` of the original's `vision_transformer.py`, without batch norms.
#[derive(Module, Debug)]
pub struct DinoHead {
    /// The original's sequence, by whose places the weights are named: `None` is an activation.
    mlp: Vec<Option<Linear>>,
    last_layer: LastLayer,
}

/// A linear layer without a bias, whose weights are `g v / |v|` for each output.
#[derive(Module, Debug)]
struct LastLayer {
    /// Lengths, `[out, 1]`.
    weight_g: Param<Tensor<2>>,
    /// Directions, `[out, in]`.
    weight_v: Param<Tensor<2>>,
}

impl DinoHead {
    /// A head with the original's initialisation: truncated normal weights and zero biases in the MLP, PyTorch's
    /// uniform directions in the last layer.
    pub fn new(config: &DinoConfig, features: usize, device: &Device, key: Key) -> Self {
        let init = Init::new(device, key);
        let mlp = init.child("mlp");
        let layer = |place: usize| {
            let width = |at: usize| match at {
                0 => features,
                at if at == config.head_layers => config.bottleneck_dim,
                _ => config.hidden_dim,
            };
            let (inputs, outputs) = (width(place / 2), width(place / 2 + 1));
            let is_layer = place.is_multiple_of(2);
            is_layer.then(|| mlp.linear(&place.to_string(), inputs, outputs, true))
        };
        let bound = 1.0 / (config.bottleneck_dim as f32).sqrt();
        let init = init.child("last_layer");
        let lengths = [config.out_dim, 1];
        let shape = [config.out_dim, config.bottleneck_dim];
        Self {
            mlp: (0..2 * config.head_layers - 1).map(layer).collect(),
            last_layer: LastLayer {
                weight_g: if config.norm_last_layer {
                    init.fixed(lengths, TensorData::ones::<f32, _>(lengths))
                } else {
                    init.param("weight_g", lengths, Law::Constant(1.0))
                },
                weight_v: init.param("weight_v", shape, Law::Uniform { bound }),
            },
        }
    }

    /// # Shapes
    ///
    /// `[n, features]` to `[n, out_dim]`
    pub fn forward(&self, features: Tensor<2>) -> Tensor<2> {
        let x = self.mlp.iter().fold(features, |x, layer| match layer {
            Some(layer) => linear(layer, x),
            None => gelu(x),
        });
        let LastLayer { weight_g, weight_v } = &self.last_layer;
        let directions = weight_v.val();
        let lengths = directions.clone().square().sum_dim(1).sqrt();
        let weight = directions * (weight_g.val() / lengths);
        normalized(x).matmul(weight.transpose())
    }

    /// The last layer, which is excluded in the first epochs.
    pub(super) fn last_layer(&self) -> [ParamId; 2] {
        [self.last_layer.weight_g.id, self.last_layer.weight_v.id]
    }

    /// Parameters that are not trained.
    pub(super) fn frozen(&self) -> Vec<ParamId> {
        let lengths = &self.last_layer.weight_g;
        let is_trained = lengths.valid().train().val().is_require_grad();
        (!is_trained).then_some(lengths.id).into_iter().collect()
    }
}
