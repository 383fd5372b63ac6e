//! Optimizers: from gradients to new weights, for the parameters of a network by name.
//!
//! An [`Optimizer`] contains the common parts: the state of each parameter, which parameters decay, the rate of each layer,
//! saving and loading. A [`Rule`] is the update of one parameter, and [`AdamW`] updates many at once; each optimizer has a file here.
//!
//! The state is simple: a few flat tensors per parameter, saved under PyTorch's name of the state and the parameter's
//! name. So a checkpoint does not depend on internal ids, and loading places the state on the network's device.

mod adamw;
mod config;
mod lamb;
mod lion;
mod muon;
mod rule;
mod sgd;

use std::collections::{BTreeMap, HashMap};

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::tensor::{Device, Tensor, TensorData};
use kvt_models::{Network, Parameter};
use kvt_ops::Guard;

use self::adamw::AdamW;
use self::lamb::Lamb;
use self::lion::Lion;
use self::muon::Muon;
use self::rule::{Buffers, Gradient, MOMENTS, Rule, UpdateNumber};
use self::sgd::Sgd;
use super::gradients::flat;
use super::{Gradients, is_head};

pub use config::{OptimConfig, OptimDecay, OptimName};

/// An optimizer state that does not match the network.
#[derive(Debug, thiserror::Error)]
pub enum OptimizerError {
    /// A tensor of the state is missing or has another size.
    #[error(
        "the optimizer state has no `{name}` of {expected} values: it belongs to another model"
    )]
    Missing {
        /// Name of the tensor.
        name: String,
        /// Its expected number of values.
        expected: usize,
    },
    /// The saved number of a parameter's updates is invalid.
    #[error("`{0}` of the optimizer state is not one count of updates")]
    Count(String),
}

/// The values of the schedules for an update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// The learning rate, before the factor of a parameter's layer.
    pub lr: f64,
    /// The weight decay of the parameters that decay.
    pub weight_decay: f64,
}

/// An optimizer with its state.
#[derive(Debug)]
pub struct Optimizer {
    /// Another rule than AdamW, if there is one.
    rule: Option<Box<dyn Rule>>,
    /// For all other parameters.
    adamw: AdamW,
    parameters: Vec<Parameter>,
    groups: HashMap<ParamId, Group>,
    states: HashMap<ParamId, State>,
    updates: u32,
    /// The device's decision about the last update, if it made one.
    guard: Option<Guard>,
    /// How often the decisions were reset.
    beginnings: u64,
}

/// The number of updates of an optimizer, in total and per parameter.
#[derive(Debug)]
pub(crate) struct Counts {
    updates: u32,
    steps: HashMap<ParamId, u32>,
    beginnings: u64,
}

/// Fixed properties of a parameter.
#[derive(Clone, Copy, Debug)]
struct Group {
    decays: bool,
    /// Factor of the learning rate.
    lr_scale: f64,
    /// Whether AdamW updates it.
    is_adamw: bool,
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
        let betas = <(f64, f64)>::from(config.betas);
        let (eps, momentum, nesterov) = (config.eps, config.momentum, config.nesterov);
        let rule: Option<Box<dyn Rule>> = match config.name {
            OptimName::Adamw => None,
            OptimName::Sgd => Some(Box::new(Sgd { momentum, nesterov })),
            OptimName::Lamb => Some(Box::new(Lamb { betas, eps })),
            OptimName::Lion => Some(Box::new(Lion { betas })),
            OptimName::Muon => Some(Box::new(Muon { momentum, nesterov })),
        };
        let parameters = network.parameters();
        let groups = parameters.iter().map(|parameter| {
            let decays = config.decay.decays(network, parameter);
            let layer = network.layer(parameter);
            let above = network.layers().saturating_sub(layer + 1);
            let is_for_muon = decays && parameter.shape.len() == 2 && !is_head(network, parameter);
            let group = Group {
                decays,
                lr_scale: config.layer_decay.powf(above as f64),
                is_adamw: match config.name {
                    OptimName::Adamw => true,
                    OptimName::Muon => !is_for_muon,
                    OptimName::Sgd | OptimName::Lamb | OptimName::Lion => false,
                },
            };
            (parameter.id, group)
        });
        Self {
            rule,
            adamw: AdamW { betas, eps },
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

    /// Whether the device can decide about updates: [`guarded_step`](Self::guarded_step).
    pub(crate) fn supports_device_decision(&self) -> bool {
        self.rule.is_none()
    }

    /// Lets the device decide about the next [`guarded_step`](Self::guarded_step): it is made if all `numbers`, the last of which is
    /// the norm of the gradients, are finite, and all were finite in the previous decisions. Gradients with a norm above `max_norm`
    /// are scaled to it. Returns [`Guard::content`].
    pub(crate) fn decide(&mut self, numbers: Tensor<1>, max_norm: Option<f64>) -> Tensor<1> {
        debug_assert!(
            self.supports_device_decision(),
            "optimizer: the device decides about AdamW alone"
        );
        let guard = Guard::new(numbers, self.guard.as_ref(), max_norm);
        let content = guard.content();
        self.guard = Some(guard);
        content
    }

    /// As [`step`](Self::step), if the device has [decided](Self::decide) to make the update; otherwise weights and moments do
    /// not change. The host does not need to wait for the decision: it counts the update, and reverts the count with
    /// [`recount`](Self::recount).
    pub(crate) fn guarded_step<N: Module>(
        &mut self,
        network: N,
        gradients: Gradients,
        rates: Rates,
    ) -> N {
        let guard = self.guard.clone();
        self.step_with(network, gradients, rates, guard.as_ref())
    }

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

    /// The number of updates so far.
    pub(crate) fn counts(&self) -> Counts {
        let steps = self.states.iter().map(|(id, state)| (*id, state.step));
        Counts {
            updates: self.updates,
            steps: steps.collect(),
            beginnings: self.beginnings,
        }
    }

    /// Restores the [`counts`](Self::counts) from before guarded steps that the device did not make, and allows new ones. `false`
    /// if they were already restored after `counts` was taken, for an earlier step.
    pub(crate) fn recount(&mut self, counts: &Counts) -> bool {
        if counts.beginnings != self.beginnings {
            return false;
        }
        self.begin_anew();
        self.updates = counts.updates;
        self.states.retain(|id, state| {
            let step = counts.steps.get(id);
            state.step = step.copied().unwrap_or(0);
            step.is_some()
        });
        true
    }

    /// Discards the device's previous decisions.
    fn begin_anew(&mut self) {
        self.guard = None;
        self.beginnings += 1;
    }

    /// The state by name, such as `exp_avg.<parameter>` and `exp_avg_sq.<parameter>` for AdamW, and the number of
    /// updates. A parameter that was excluded from some of them has its own number, `step.<parameter>`.
    pub fn state(&self) -> (BTreeMap<String, TensorData>, u32) {
        let mut saved = BTreeMap::new();
        for Parameter { name, id, .. } in &self.parameters {
            let state = self.states.get(id);
            let step = state.map_or(0, |state| state.step);
            if step != self.updates {
                let step = TensorData::new(vec![i64::from(step)], [1]);
                saved.insert(format!("step.{name}"), step);
            }
            for (buffer, values) in state.into_iter().flat_map(|state| state.buffers.iter()) {
                saved.insert(format!("{buffer}.{name}"), values.to_data());
            }
        }
        (saved, self.updates)
    }

    /// Restores the result of [`Self::state`], on the network's device.
    ///
    /// # Errors
    /// If a part of the state is missing or has another size.
    pub fn load_state(
        &mut self,
        mut saved: BTreeMap<String, TensorData>,
        updates: u32,
        network: &impl Module,
    ) -> Result<(), OptimizerError> {
        self.updates = updates;
        self.begin_anew();
        self.states.clear();
        let Some(device) = network.devices().into_iter().next().map(Device::inner) else {
            return Ok(());
        };
        for Parameter { name, id, shape } in &self.parameters {
            let step = match saved.remove(&format!("step.{name}")) {
                Some(step) => {
                    count(&step).ok_or_else(|| OptimizerError::Count(format!("step.{name}")))?
                }
                None => updates,
            };
            if step == 0 {
                continue;
            }
            let expected = shape.iter().product();
            let mut buffers = Buffers::default();
            let names: &[&str] = match self.rule(*id) {
                Some(rule) => rule.buffers(),
                None => &MOMENTS,
            };
            for &buffer in names {
                let name = format!("{buffer}.{name}");
                match saved.remove(&name) {
                    Some(data) if data.num_elements() == expected => {
                        buffers.put(buffer, Tensor::from_data(data, &device));
                    }
                    _ => return Err(OptimizerError::Missing { name, expected }),
                }
            }
            self.states.insert(*id, State { buffers, step });
        }
        Ok(())
    }

    /// The rule of a parameter, unless it is AdamW.
    fn rule(&self, id: ParamId) -> Option<&dyn Rule> {
        let is_adamw = self.groups.get(&id).is_some_and(|group| group.is_adamw);
        self.rule.as_deref().filter(|_| !is_adamw)
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
        for (id, shape, weight, gradient) in parameters {
            let state = self.states.entry(id).or_default();
            state.step += 1;
            let group = self.groups.get(&id);
            let number = UpdateNumber {
                lr: rates.lr * group.map_or(1.0, |group| group.lr_scale),
                weight_decay: match group {
                    Some(group) if group.decays => rates.weight_decay,
                    _ => 0.0,
                },
                step: state.step,
                shape,
            };
            let parameter = rule::Parameter {
                weight,
                gradient,
                number,
            };
            // They are changed in place if they have no other owner.
            let mut buffers = std::mem::take(&mut state.buffers);
            if let Some(rule) = self.rule(id) {
                weights.insert(id, rule.update(parameter, &mut buffers));
                self.states.entry(id).or_default().buffers = buffers;
            } else {
                adamw_ids.push(id);
                of_adamw.push((parameter, buffers));
            }
        }
        let updated = self.adamw.update(of_adamw, guard);
        for (id, (weight, buffers)) in adamw_ids.into_iter().zip(updated) {
            self.states.entry(id).or_default().buffers = buffers;
            weights.insert(id, weight);
        }
        weights
    }
}

/// The only integer of a tensor.
fn count(data: &TensorData) -> Option<u32> {
    match data.as_slice::<i64>() {
        Ok(&[count]) => u32::try_from(count).ok(),
        _ => None,
    }
}

/// A parameter that has a gradient: its shape and, flat, its weight and the gradient.
type Weight = (ParamId, Vec<usize>, Tensor<1>, Gradient);

/// Collects the parameters that have a gradient, in the order of the modules.
struct Trained {
    gradients: Gradients,
    parameters: Vec<Weight>,
}

impl ModuleVisitor for Trained {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let Some((values, scale)) = self.gradients.remove(param.id) else {
            return;
        };
        let weight = param.val().inner();
        let (shape, gradient) = (weight.dims().to_vec(), Gradient { values, scale });
        let parameter = (param.id, shape, flat(weight), gradient);
        self.parameters.push(parameter);
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
