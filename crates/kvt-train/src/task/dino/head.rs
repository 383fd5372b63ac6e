//! The head of student and teacher: an MLP, the L2 norm, and a linear layer with weight norm.

use burn::module::{Module, Param, ParamId};
use burn::nn::Linear;
use burn::tensor::{Device, Tensor, TensorData};
use kvt_attention::{Law, ParamInit};
use kvt_models::Parameter;
use kvt_models::layers::Init;
use kvt_models::weights::{LoadRow, Outcome, StateDict};
use kvt_ops::{Key, gelu, linear};

use super::DinoConfig;

/// `DINOHead` of the original's `vision_transformer.py`, without batch norms.
#[derive(Module, Debug)]
pub struct DinoHead {
    mlp: Vec<Linear>,
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

/// The names of the last layer's weights among the parameters of the head.
const LAST_LAYER: [&str; 2] = ["last_layer.weight_g", "last_layer.weight_v"];
/// The minimum divisor in PyTorch's `normalize`.
const LEAST_NORM: f64 = 1e-12;

impl DinoHead {
    /// A head with the original's initialisation: truncated normal weights and zero biases in the MLP, PyTorch's
    /// uniform directions in the last layer.
    pub fn new(config: &DinoConfig, features: usize, device: &Device, key: Key) -> Self {
        let init = Init::new(device, key);
        let last = config.head_layers - 1;
        let layer = |i: usize| {
            let width = |at: usize| match at {
                0 => features,
                at if at > last => config.bottleneck_dim,
                _ => config.hidden_dim,
            };
            init.child("mlp")
                .linear(&place(i), width(i), width(i + 1), true)
        };
        let bound = 1.0 / (config.bottleneck_dim as f32).sqrt();
        let init = init.child("last_layer");
        let shape = [config.out_dim, config.bottleneck_dim];
        Self {
            mlp: (0..config.head_layers).map(layer).collect(),
            last_layer: LastLayer {
                weight_g: if config.norm_last_layer {
                    init.fixed([config.out_dim, 1], ones(config.out_dim))
                } else {
                    init.param("weight_g", [config.out_dim, 1], Law::Constant(1.0))
                },
                weight_v: init.param("weight_v", shape, Law::Uniform { bound }),
            },
        }
    }

    /// # Shapes
    ///
    /// `[n, features]` to `[n, out_dim]`
    pub fn forward(&self, features: Tensor<2>) -> Tensor<2> {
        let mut x = features;
        for (i, layer) in self.mlp.iter().enumerate() {
            if i > 0 {
                x = gelu(x);
            }
            x = linear(layer, x);
        }
        let LastLayer { weight_g, weight_v } = &self.last_layer;
        let directions = weight_v.val();
        let lengths = norm(directions.clone());
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

    /// Every trainable parameter under the original's name.
    pub(super) fn parameters(&self) -> Vec<Parameter> {
        let frozen = self.frozen();
        let mut all = Vec::new();
        for (i, layer) in self.mlp.iter().enumerate() {
            let [inputs, outputs] = layer.weight.val().dims();
            let [weight, bias] = names(i);
            all.push((weight, layer.weight.id, vec![outputs, inputs]));
            let bias = layer
                .bias
                .as_ref()
                .map(|param| (bias, param.id, vec![outputs]));
            all.extend(bias);
        }
        for (name, param) in LAST_LAYER.into_iter().zip(self.last_layer.params()) {
            all.push((name.to_owned(), param.id, param.val().dims().to_vec()));
        }
        let all = all.into_iter().filter(|(_, id, _)| !frozen.contains(id));
        all.map(|(name, id, shape)| Parameter { name, id, shape })
            .collect()
    }

    /// All weights under the original's names and in PyTorch's layout.
    pub(super) fn state_dict(&self) -> StateDict {
        let mut state = StateDict::default();
        for (i, layer) in self.mlp.iter().enumerate() {
            let [weight, bias] = names(i);
            state.insert(weight, layer.weight.val().transpose().to_data());
            if let Some(param) = &layer.bias {
                state.insert(bias, param.val().to_data());
            }
        }
        for (name, param) in LAST_LAYER.into_iter().zip(self.last_layer.params()) {
            state.insert(name, param.val().to_data());
        }
        state
    }

    /// This head with the weights of a file, and the outcome for each of them.
    pub(super) fn load(mut self, state: &StateDict) -> (Self, Vec<LoadRow>) {
        let mut rows = Vec::new();
        let mut fit = |name: String, expected: Vec<usize>| {
            let data = state.get(&name);
            let found = data.map(|data| data.shape().to_vec());
            let outcome = match &found {
                None => Outcome::Missing,
                Some(found) if *found != expected => Outcome::Mismatched,
                Some(_) => Outcome::Matched,
            };
            rows.push(LoadRow {
                name,
                expected: Some(expected),
                found,
                outcome,
            });
            data.filter(|_| outcome == Outcome::Matched).cloned()
        };
        let mlp = self.mlp.into_iter().enumerate();
        self.mlp = mlp
            .map(|(i, mut layer)| {
                let [inputs, outputs] = layer.weight.val().dims();
                let [weight, bias] = names(i);
                if let Some(data) = fit(weight, vec![outputs, inputs]) {
                    layer.weight = put(layer.weight, transposed(&data, [outputs, inputs]));
                }
                layer.bias = layer.bias.map(|param| match fit(bias, vec![outputs]) {
                    Some(data) => put(param, data),
                    None => param,
                });
                layer
            })
            .collect();
        let LastLayer { weight_g, weight_v } = self.last_layer;
        let [weight_g, weight_v] =
            [(LAST_LAYER[0], weight_g), (LAST_LAYER[1], weight_v)].map(|(name, param)| {
                match fit(name.to_owned(), param.val().dims().to_vec()) {
                    Some(data) => put(param, data),
                    None => param,
                }
            });
        self.last_layer = LastLayer { weight_g, weight_v };
        (self, rows)
    }
}

impl LastLayer {
    /// In the order of [`LAST_LAYER`].
    fn params(&self) -> [&Param<Tensor<2>>; 2] {
        [&self.weight_g, &self.weight_v]
    }
}

/// The index of a layer in the original's sequence, which has an activation between two layers.
fn place(layer: usize) -> String {
    (2 * layer).to_string()
}

/// The names of a layer's weight and bias.
fn names(layer: usize) -> [String; 2] {
    ["weight", "bias"].map(|part| format!("mlp.{}.{part}", place(layer)))
}

fn ones(count: usize) -> TensorData {
    TensorData::new(vec![1.0f32; count], [count, 1])
}

/// A parameter with new values, trainable if it was before.
fn put<const D: usize>(param: Param<Tensor<D>>, data: TensorData) -> Param<Tensor<D>> {
    param.map(|old| {
        let is_trained = old.is_require_grad();
        let values = Tensor::from_data(data.convert::<f32>(), &old.device());
        values.set_require_grad(is_trained)
    })
}

/// The elements of a matrix `[rows, columns]`, column by column.
fn transposed(data: &TensorData, [rows, columns]: [usize; 2]) -> TensorData {
    let values: Vec<f32> = data.iter::<f32>().collect();
    let places = (0..columns).flat_map(|column| (0..rows).map(move |row| row * columns + column));
    let values: Vec<f32> = places.filter_map(|at| values.get(at).copied()).collect();
    TensorData::new(values, [columns, rows])
}

/// The length of each row, `[rows, 1]`.
fn norm(rows: Tensor<2>) -> Tensor<2> {
    rows.square().sum_dim(1).sqrt()
}

/// Each row scaled to length 1.
pub(super) fn normalized(rows: Tensor<2>) -> Tensor<2> {
    let lengths = norm(rows.clone()).clamp_min(LEAST_NORM);
    rows / lengths
}
