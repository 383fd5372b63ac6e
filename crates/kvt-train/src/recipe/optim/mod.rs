//! Optimizers: from gradients to new weights, over the parameters of a network by name.
//!
//! An [`Optimizer`] owns what is the same for all of them: the state of each parameter, which parameters decay, the rate of
//! each layer, saving and loading. A [`Rule`] is one update of one parameter; each optimizer is a file here.
//!
//! State is plain: a few flat tensors per parameter, saved under PyTorch's name of the state and the parameter's. So a
//! checkpoint does not depend on internal ids, and loading puts the state where the network is.

mod adamw;
mod config;
mod lamb;
mod lion;
mod muon;
mod rule;
mod sgd;

use std::collections::{BTreeMap, HashMap};

use burn::module::{Module, ModuleMapper, Param, ParamId};
use burn::tensor::{Device, Tensor, TensorData};
use kvt_models::Parameter;
use kvt_ops::Guard;

use self::adamw::AdamW;
use self::lamb::Lamb;
use self::lion::Lion;
use self::muon::Muon;
use self::rule::{Buffers, Gradient, Rule, UpdateNumber};
use self::sgd::Sgd;
use super::gradients::flat;
use super::{Gradients, Network, is_head};

pub use config::{OptimConfig, OptimName};

/// An optimizer state that does not belong to the network.
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
    /// The number of a parameter's updates is none.
    #[error("`{name}` of the optimizer state is not one count of updates")]
    Count {
        /// Name of the count.
        name: String,
    },
}

/// What schedules give an update.
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
    rule: Box<dyn Rule>,
    /// For the parameters that `rule` is not meant for.
    rest: AdamW,
    parameters: Vec<Parameter>,
    groups: HashMap<ParamId, Group>,
    states: HashMap<ParamId, State>,
    updates: u32,
    /// What the device decided about the last update, where it did.
    guard: Option<Guard>,
}

/// How many updates an optimizer has made, of each parameter too.
#[derive(Debug)]
pub(crate) struct Counts {
    updates: u32,
    steps: HashMap<ParamId, u32>,
}

/// What is decided for a parameter once and for all.
#[derive(Clone, Copy, Debug)]
struct Group {
    decays: bool,
    /// Factor of the learning rate.
    lr_scale: f64,
    /// Whether [`Optimizer::rest`] updates it.
    is_rest: bool,
}

/// The state of a parameter.
#[derive(Debug, Default)]
struct State {
    buffers: Buffers,
    /// Updates of this parameter. Those that it was left out of do not count.
    step: u32,
}

impl Optimizer {
    /// An optimizer for a network, without any state yet.
    ///
    /// What decays is the network's choice; with timm neither tensors of rank 1 (biases, norms) nor what the model
    /// excludes (position embeddings, class tokens). The rate of layer `i` of `n` is `layer_decay^(n - 1 - i)` of the
    /// whole.
    pub fn new(config: &OptimConfig, network: &impl Network) -> Self {
        let [beta1, beta2] = config.betas;
        let betas = (beta1, beta2);
        let OptimConfig {
            eps,
            momentum,
            nesterov,
            ..
        } = *config;
        let rest = AdamW { betas, eps };
        let rule: Box<dyn Rule> = match config.name {
            OptimName::Adamw => Box::new(rest),
            OptimName::Sgd => Box::new(Sgd { momentum, nesterov }),
            OptimName::Lamb => Box::new(Lamb { betas, eps }),
            OptimName::Lion => Box::new(Lion { betas }),
            OptimName::Muon => Box::new(Muon { momentum, nesterov }),
        };
        let parameters = network.parameters();
        let groups = parameters.iter().map(|parameter| {
            let decays = network.decays(parameter);
            let above = network
                .layers()
                .saturating_sub(network.layer(parameter) + 1);
            let group = Group {
                decays,
                lr_scale: config.layer_decay.powf(above as f64),
                is_rest: config.name == OptimName::Muon
                    && !(decays && parameter.shape.len() == 2 && !is_head(network, parameter)),
            };
            (parameter.id, group)
        });
        Self {
            rule,
            rest,
            groups: groups.collect(),
            parameters,
            states: HashMap::new(),
            updates: 0,
            guard: None,
        }
    }

    /// One update: the network with new weights. A parameter without a gradient stays as it is, and so does its state.
    pub fn step<N: Module>(&mut self, network: N, gradients: Gradients, rates: Rates) -> N {
        self.step_with(network, gradients, rates, None)
    }

    /// Whether the device can decide about its updates: [`guarded_step`](Self::guarded_step).
    pub(crate) fn heeds_guards(&self) -> bool {
        self.rule.heeds_guards()
    }

    /// As [`step`](Self::step), if all `numbers`, the last of which is the norm of the gradients, are finite, and if all were
    /// in the guarded steps before; else weights and moments stay as they are. Gradients of a norm above `max_norm` are
    /// scaled to it. The device decides, so that the host need not wait for it. The host counts the update, and takes
    /// that back by [`recount`](Self::recount).
    pub(crate) fn guarded_step<N: Module>(
        &mut self,
        network: N,
        gradients: Gradients,
        rates: Rates,
        numbers: Tensor<1>,
        max_norm: Option<f64>,
    ) -> N {
        let guard = Guard::new(numbers, self.guard.as_ref(), max_norm);
        self.guard = Some(guard.clone());
        self.step_with(network, gradients, rates, Some(guard))
    }

    fn step_with<N: Module>(
        &mut self,
        network: N,
        gradients: Gradients,
        rates: Rates,
        guard: Option<Guard>,
    ) -> N {
        self.updates += 1;
        let mut step = StepMapper {
            rates,
            optimizer: self,
            gradients,
            guard,
        };
        network.map(&mut step)
    }

    /// The updates so far.
    pub(crate) fn counts(&self) -> Counts {
        let steps = self.states.iter().map(|(id, state)| (*id, state.step));
        Counts {
            updates: self.updates,
            steps: steps.collect(),
        }
    }

    /// Puts back [`counts`](Self::counts) of before guarded steps that the device did not make.
    pub(crate) fn recount(&mut self, counts: &Counts) {
        self.guard = None;
        self.updates = counts.updates;
        self.states.retain(|id, state| {
            let step = counts.steps.get(id);
            state.step = step.copied().unwrap_or(0);
            step.is_some()
        });
    }

    /// State by name, such as `exp_avg.<parameter>` and `exp_avg_sq.<parameter>` of AdamW, and the number of updates. A
    /// parameter that was left out of some of them has its own number, `step.<parameter>`.
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

    /// Puts back what [`Self::state`] gave, on the network's device.
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
        self.states.clear();
        let Some(device) = network.devices().into_iter().next().map(Device::inner) else {
            return Ok(());
        };
        for Parameter { name, id, shape } in &self.parameters {
            let step = match saved.remove(&format!("step.{name}")) {
                Some(step) => count(&step).ok_or_else(|| OptimizerError::Count {
                    name: format!("step.{name}"),
                })?,
                None => updates,
            };
            if step == 0 {
                continue;
            }
            let expected = shape.iter().product();
            let mut buffers = Buffers::default();
            for &buffer in self.rule(*id).buffers() {
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

    /// The rule of a parameter.
    fn rule(&self, id: ParamId) -> &dyn Rule {
        match self.groups.get(&id) {
            Some(group) if group.is_rest => &self.rest,
            _ => self.rule.as_ref(),
        }
    }

    fn update<const D: usize>(
        &mut self,
        id: ParamId,
        weight: Tensor<D>,
        gradient: Gradient,
        rates: Rates,
    ) -> Tensor<D> {
        let shape = weight.shape();
        let mut state = self.states.remove(&id).unwrap_or_default();
        state.step += 1;
        let group = self.groups.get(&id);
        let number = UpdateNumber {
            lr: rates.lr * group.map_or(1.0, |group| group.lr_scale),
            weight_decay: match group {
                Some(group) if group.decays => rates.weight_decay,
                _ => 0.0,
            },
            step: state.step,
            shape: &weight.dims(),
        };
        let buffers = &mut state.buffers;
        let weight = self
            .rule(id)
            .update(flat(weight), gradient, buffers, number);
        self.states.insert(id, state);
        weight.reshape(shape)
    }
}

/// The one integer of a tensor.
fn count(data: &TensorData) -> Option<u32> {
    match data.as_slice::<i64>() {
        Ok(&[count]) => u32::try_from(count).ok(),
        _ => None,
    }
}

struct StepMapper<'a> {
    rates: Rates,
    optimizer: &'a mut Optimizer,
    gradients: Gradients,
    guard: Option<Guard>,
}

impl ModuleMapper for StepMapper<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some((values, scale)) = self.gradients.remove(param.id) else {
            return param;
        };
        let guard = self.guard.clone();
        let id = param.id;
        let gradient = Gradient {
            values,
            scale,
            guard,
        };
        param.map(|weight| {
            let trained = weight.is_require_grad();
            let weight = self
                .optimizer
                .update(id, weight.inner(), gradient, self.rates);
            weight.autodiff().set_require_grad(trained)
        })
    }
}

#[cfg(test)]
mod tests;
