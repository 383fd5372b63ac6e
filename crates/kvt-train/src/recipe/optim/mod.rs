//! Optimizers: from gradients to new weights, for the parameters of a network by name.
//!
//! An [`Optimizer`] contains the common parts: the state of each parameter, which parameters decay, and the rate of each layer. A
//! [`Rule`] is the update of one parameter, and `adamw` updates many at once; each has a file here. The state is saved and loaded in
//! `state`, and `decision` is for updates of which the host does not know yet whether they are made.
//!
//! The state is simple: a few flat tensors per parameter, saved under PyTorch's name of the state and the parameter's
//! name. So a checkpoint does not depend on internal ids, and loading places the state on the network's device.

mod adamw;
mod config;
mod decision;
mod lamb;
mod lion;
mod muon;
mod rule;
mod sgd;
mod state;

use std::collections::HashMap;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::tensor::Tensor;
use kvt_models::{Network, Parameter};
use kvt_ops::{AdamWInput, Guard};

use self::rule::{Buffers, Rule, UpdateNumber};
use super::gradients::{flat, times};
use super::{Gradients, is_head};

pub use config::{OptimConfig, OptimDecay, OptimName};
pub(crate) use decision::Counts;
pub use state::OptimizerError;

/// The values of the schedules for an update.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// The learning rate, before the factor of a parameter's layer.
    pub lr: f64,
    /// The weight decay of the parameters that decay.
    pub weight_decay: f64,
}

/// An optimizer with its state.
#[derive(Debug)]
pub struct Optimizer {
    config: OptimConfig,
    parameters: Vec<Parameter>,
    groups: HashMap<ParamId, Group>,
    states: HashMap<ParamId, State>,
    updates: u32,
    /// The device's decision about the last update, if it made one.
    guard: Option<Guard>,
    /// How often the decisions were reset.
    beginnings: u64,
}

/// How a parameter is updated.
#[derive(Debug)]
struct Group {
    decays: bool,
    /// Factor of the learning rate.
    lr_scale: f64,
    /// Another rule than AdamW, if there is one.
    rule: Option<Rule>,
}

/// The state of a parameter.
#[derive(Debug, Default)]
struct State {
    buffers: Buffers,
    /// Updates of this parameter, without those that it was excluded from.
    step: u32,
}

impl Optimizer {
    /// An optimizer for a network, without state.
    ///
    /// The network chooses the parameters that decay; with timm's rule, these are neither tensors of rank 1 (biases,
    /// norms) nor those that the model excludes (position embeddings, class tokens). The rate of layer `i` of `n` is
    /// multiplied by `layer_decay^(n - 1 - i)`.
    pub fn new(config: &OptimConfig, network: &impl Network) -> Self {
        let rule = match config.name {
            OptimName::Adamw => None,
            OptimName::Sgd => Some(sgd::rule(config)),
            OptimName::Lamb => Some(lamb::RULE),
            OptimName::Lion => Some(lion::RULE),
            OptimName::Muon => Some(muon::RULE),
        };
        let parameters = network.parameters();
        let groups = parameters.iter().map(|parameter| {
            let decays = config.decay.decays(network, parameter);
            let above = network
                .layers()
                .saturating_sub(network.layer(parameter) + 1);
            // Muon is for the matrices of hidden layers.
            let has_rule = config.name != OptimName::Muon
                || decays && parameter.shape.len() == 2 && !is_head(network, parameter);
            let group = Group {
                decays,
                lr_scale: config.layer_decay.powf(above as f64),
                rule: rule.filter(|_| has_rule),
            };
            (parameter.id, group)
        });
        Self {
            config: config.clone(),
            groups: groups.collect(),
            parameters,
            states: HashMap::new(),
            updates: 0,
            guard: None,
            beginnings: 0,
        }
    }

    /// One update: the network with new weights. A parameter without a gradient does not change, and neither does its state.
    pub fn step<N: Module>(&mut self, network: N, gradients: Gradients, rates: Rates) -> N {
        self.step_with(network, gradients, rates, None)
    }

    /// The update, if the guard does not prevent it.
    fn step_with<N: Module>(
        &mut self,
        network: N,
        gradients: Gradients,
        rates: Rates,
        guard: Option<&Guard>,
    ) -> N {
        self.updates += 1;
        let mut found = Trained {
            gradients,
            parameters: Vec::new(),
        };
        network.visit(&mut found);
        let mut new = NewWeights(self.update(found.parameters, rates, guard));
        network.map(&mut new)
    }

    /// The new weights of parameters, flat.
    fn update(
        &mut self,
        parameters: Vec<Weight>,
        rates: Rates,
        guard: Option<&Guard>,
    ) -> HashMap<ParamId, Tensor<1>> {
        let mut weights = HashMap::new();
        // In the order of the modules.
        let (mut adamw_ids, mut of_adamw) = (Vec::new(), Vec::new());
        for (id, shape, weight, (gradient, scale)) in parameters {
            // Only parameters that the network names are trained.
            let Some(group) = self.groups.get(&id) else {
                continue;
            };
            let state = self.states.entry(id).or_default();
            state.step += 1;
            let weight_decay = if group.decays {
                rates.weight_decay
            } else {
                0.0
            };
            let number = UpdateNumber {
                lr: rates.lr * group.lr_scale,
                weight_decay,
                step: state.step,
                shape,
            };
            let buffers = &mut state.buffers;
            if let Some(rule) = &group.rule {
                let gradient = times(gradient, scale);
                let new = (rule.update)(&self.config, weight, gradient, &number, buffers);
                weights.insert(id, new);
            } else {
                adamw_ids.push(id);
                of_adamw.push(AdamWInput {
                    // They are changed in place if they have no other owner.
                    moments: buffers.take_moments(&weight),
                    weight,
                    grad: gradient,
                    step: adamw::step(&self.config, &number, scale),
                });
            }
        }
        let updated = kvt_ops::adamw(of_adamw, guard);
        for (id, (weight, moments)) in adamw_ids.into_iter().zip(updated) {
            let state = self.states.entry(id).or_default();
            state.buffers.put_moments(moments);
            weights.insert(id, weight);
        }
        weights
    }
}

/// A parameter that has a gradient: its shape and, flat, its weight and the gradient, with a pending factor.
type Weight = (ParamId, Vec<usize>, Tensor<1>, (Tensor<1>, f64));

/// Collects the parameters that have a gradient, in the order of the modules.
struct Trained {
    gradients: Gradients,
    parameters: Vec<Weight>,
}

impl ModuleVisitor for Trained {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(gradient) = self.gradients.remove(param.id) {
            let weight = param.val().inner();
            let parameter = (param.id, weight.dims().to_vec(), flat(weight), gradient);
            self.parameters.push(parameter);
        }
    }
}

/// Sets the new weights of parameters.
struct NewWeights(HashMap<ParamId, Tensor<1>>);

impl ModuleMapper for NewWeights {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(new) = self.0.remove(&param.id) else {
            return param;
        };
        param.map(|weight| {
            let new = new.reshape(weight.shape()).autodiff();
            new.set_require_grad(weight.is_require_grad())
        })
    }
}

#[cfg(test)]
mod tests;
