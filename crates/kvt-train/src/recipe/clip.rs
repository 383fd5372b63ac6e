//! Gradient clipping.
//!
//! The host reads only the global norm, which it logs anyway, and not always before the update. The other norms stay on the
//! device.

use std::collections::HashMap;

use burn::module::{ModuleVisitor, Param, ParamId};
use burn::tensor::Tensor;
use kvt_models::Network;
use kvt_ops::square_sum;

use super::gradients::flat;
use super::{Gradients, is_head};

/// The clipping of gradients before an update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Clip {
    /// No clipping.
    Off,
    /// The norm over all parameters is at most this (PyTorch's `clip_grad_norm_`).
    Norm(f64),
    /// Each number is at most this, and at least its negative (PyTorch's `clip_grad_value_`).
    Value(f64),
    /// The norm of each parameter is at most this (DINO's `clip_gradients`).
    Parameter(f64),
    /// The norm of each output unit's gradient is at most this fraction of the norm of its weights, which is taken as at
    /// least 1e-3: adaptive gradient clipping (Brock et al., 2021, <https://arxiv.org/abs/2102.06171>, equation 3;
    /// timm's `adaptive_clip_grad`). The head is excluded, as there.
    Adaptive(f64),
}

impl Clip {
    /// Clips the gradients of a network, but not by their global norm, which only the device may know: returns the maximum norm
    /// instead, if there is one, for [`Gradients::clip_norm`].
    pub fn apply(
        self,
        mut gradients: Gradients,
        network: &impl Network,
    ) -> (Gradients, Option<f64>) {
        match self {
            Self::Off => {}
            Self::Norm(max) => return (gradients, Some(max)),
            Self::Value(max) => gradients.map_each(|_, gradient| gradient.clamp(-max, max)),
            Self::Parameter(max) => gradients.map_each(|_, gradient| {
                let norm = square_sum(gradient.clone()).sqrt();
                gradient * ((norm + 1e-6).recip() * max).clamp_max(1.0)
            }),
            Self::Adaptive(share) => {
                let weights = weights(network);
                gradients.map_each(|id, gradient| match weights.get(&id) {
                    Some(weight) => adapted(gradient, weight, share),
                    None => gradient,
                });
            }
        }
        (gradients, None)
    }
}

/// A weight, and its division into output units.
struct Units {
    weight: Tensor<1>,
    /// Rows and columns of the weight.
    shape: [usize; 2],
    /// The dimension of a unit's inputs: 1 if each row is a unit, 0 if each column is one.
    inputs: usize,
}

/// The weights with which adaptive clipping compares gradients.
fn weights(network: &impl Network) -> HashMap<ParamId, Units> {
    let mut visitor = WeightVisitor::default();
    network.visit(&mut visitor);
    let mut weights = visitor.weights;
    for parameter in network.parameters() {
        if is_head(network, &parameter) {
            weights.remove(&parameter.id);
        }
    }
    weights
}

/// Collects weights, with the types of the modules that contain them.
#[derive(Default)]
struct WeightVisitor {
    modules: Vec<String>,
    weights: HashMap<ParamId, Units>,
}

impl ModuleVisitor for WeightVisitor {
    fn enter_module(&mut self, _name: &str, container_type: &str) {
        self.modules.push(container_type.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.modules.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let weight = param.val().inner();
        let dims = weight.dims();
        let total = dims.iter().product::<usize>();
        let is_linear = self
            .modules
            .last()
            .is_some_and(|kind| kind == "Struct:Linear" || kind == "Struct:LoraAdapter");
        let (shape, inputs) = match *dims.as_slice() {
            // Burn stores a linear layer as [inputs, outputs].
            [inputs, outputs] if is_linear => ([inputs, outputs], 0),
            [outputs, _, ..] => ([outputs, total / outputs.max(1)], 1),
            // The norm of a bias is that of the whole vector.
            _ => ([1, total], 1),
        };
        let units = Units {
            weight: flat(weight),
            shape,
            inputs,
        };
        self.weights.insert(param.id, units);
    }
}

/// The gradient of a weight, with the norm of each unit limited to `share` of the weight's norm.
fn adapted(gradient: Tensor<1>, units: &Units, share: f64) -> Tensor<1> {
    let norms = |x: Tensor<2>| x.square().sum_dim(units.inputs).sqrt();
    let gradient = gradient.reshape(units.shape);
    let max = norms(units.weight.clone().reshape(units.shape)).clamp_min(1e-3) * share;
    let factor = max.clone() / norms(gradient.clone()).max_pair(max);
    let elements = units.shape.iter().product::<usize>();
    (gradient * factor).reshape([elements])
}

#[cfg(test)]
mod tests;
