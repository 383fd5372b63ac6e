//! AdamW (Loshchilov & Hutter, Decoupled Weight Decay Regularization, 2019) in PyTorch's order of
//! operations, over the parameters of a network by name.
//!
//! Its state is plain: two flat tensors per parameter, saved under the parameter's name. So a
//! checkpoint does not depend on internal ids, and loading puts the state where the network is.

use std::collections::{BTreeMap, HashMap, HashSet};

use burn::module::{Module, ModuleMapper, Param, ParamId};
use burn::tensor::{Device, Tensor, TensorData};
use kvt_models::Parameter;
use kvt_ops::{AdamWStep, adamw};

use super::gradients::flat;
use super::{Gradients, Network};

/// The constants of the optimizer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamWConfig {
    /// Decay rates of the two moments.
    pub betas: (f64, f64),
    /// Added to the root of the second moment.
    pub eps: f64,
    /// Decoupled weight decay, multiplied by the learning rate.
    pub weight_decay: f64,
}

/// An optimizer state that does not belong to the network.
#[derive(Debug, thiserror::Error)]
pub enum AdamWError {
    /// A moment is missing or has another size.
    #[error(
        "the optimizer state has no `{name}` of {expected} values: it belongs to another model"
    )]
    Moment {
        /// Name of the moment tensor.
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

/// AdamW with its moments.
#[derive(Debug)]
pub struct AdamW {
    config: AdamWConfig,
    parameters: Vec<Parameter>,
    decayed: HashSet<ParamId>,
    moments: HashMap<ParamId, Moments>,
    updates: u32,
}

/// The state of a parameter, under PyTorch's names.
#[derive(Clone, Debug)]
struct Moments {
    exp_avg: Tensor<1>,
    exp_avg_sq: Tensor<1>,
    /// Updates of this parameter. Those that it was left out of do not count.
    step: u32,
}

impl AdamW {
    /// An optimizer for a network, without any moments yet.
    ///
    /// What decays is the network's choice; with timm neither tensors of rank 1 (biases, norms) nor what the model
    /// excludes (position embeddings, class tokens).
    pub fn new(config: AdamWConfig, network: &impl Network) -> Self {
        let parameters = network.parameters();
        let decayed = parameters
            .iter()
            .filter(|parameter| network.decays(parameter))
            .map(|p| p.id)
            .collect();
        Self {
            config,
            parameters,
            decayed,
            moments: HashMap::new(),
            updates: 0,
        }
    }

    /// One update: the network with new weights. A parameter without a gradient stays as it is, and so does its state.
    pub fn step<N: Module>(&mut self, network: N, gradients: Gradients, lr: f64) -> N {
        self.updates += 1;
        let mut step = StepMapper {
            lr,
            optimizer: self,
            gradients,
        };
        network.map(&mut step)
    }

    /// Moments by name (`exp_avg.<parameter>`, `exp_avg_sq.<parameter>`), and the number of updates. A parameter that was
    /// left out of some of them has its own number, `step.<parameter>`.
    pub fn state(&self) -> (BTreeMap<String, TensorData>, u32) {
        let mut state = BTreeMap::new();
        for Parameter { name, id, .. } in &self.parameters {
            let moments = self.moments.get(id);
            let step = moments.map_or(0, |moments| moments.step);
            if step != self.updates {
                let step = TensorData::new(vec![i64::from(step)], [1]);
                state.insert(format!("step.{name}"), step);
            }
            if let Some(moments) = moments {
                state.insert(format!("exp_avg.{name}"), moments.exp_avg.to_data());
                state.insert(format!("exp_avg_sq.{name}"), moments.exp_avg_sq.to_data());
            }
        }
        (state, self.updates)
    }

    /// Puts back what [`Self::state`] gave, on the network's device.
    ///
    /// # Errors
    /// If a moment is missing or has another size.
    pub fn load_state(
        &mut self,
        mut state: BTreeMap<String, TensorData>,
        updates: u32,
        network: &impl Module,
    ) -> Result<(), AdamWError> {
        self.updates = updates;
        let Some(device) = network.devices().into_iter().next().map(Device::inner) else {
            return Ok(());
        };
        for Parameter { name, id, shape } in &self.parameters {
            let step = match state.remove(&format!("step.{name}")) {
                Some(step) => count(&step).ok_or_else(|| AdamWError::Count {
                    name: format!("step.{name}"),
                })?,
                None => updates,
            };
            if step == 0 {
                continue;
            }
            let expected = shape.iter().product();
            let mut take = |name: String| match state.remove(&name) {
                Some(data) if data.num_elements() == expected => {
                    Ok(Tensor::<1>::from_data(data, &device))
                }
                _ => Err(AdamWError::Moment { name, expected }),
            };
            let moments = Moments {
                exp_avg: take(format!("exp_avg.{name}"))?,
                exp_avg_sq: take(format!("exp_avg_sq.{name}"))?,
                step,
            };
            self.moments.insert(*id, moments);
        }
        Ok(())
    }

    fn update<const D: usize>(
        &mut self,
        id: ParamId,
        weight: Tensor<D>,
        (gradient, grad_scale): (Tensor<1>, f64),
        lr: f64,
    ) -> Tensor<D> {
        let shape = weight.shape();
        let weight = flat(weight);
        let moments = self.moments.remove(&id).unwrap_or_else(|| Moments {
            exp_avg: weight.zeros_like(),
            exp_avg_sq: weight.zeros_like(),
            step: 0,
        });
        let step = moments.step + 1;
        let numbers = self.numbers(step, grad_scale, lr, self.decayed.contains(&id));
        let moments = [moments.exp_avg, moments.exp_avg_sq];
        let (weight, [exp_avg, exp_avg_sq]) = adamw(weight, gradient, moments, numbers);
        let moments = Moments {
            exp_avg,
            exp_avg_sq,
            step,
        };
        self.moments.insert(id, moments);
        weight.reshape(shape)
    }

    /// The numbers of a parameter's `step`-th update, from 1.
    fn numbers(&self, step: u32, grad_scale: f64, lr: f64, decays: bool) -> AdamWStep {
        let AdamWConfig {
            betas,
            eps,
            weight_decay,
        } = self.config;
        let step = f64::from(step);
        AdamWStep {
            grad_scale,
            weight_scale: if decays { 1.0 - lr * weight_decay } else { 1.0 },
            betas,
            eps,
            step_size: lr / (1.0 - betas.0.powf(step)),
            inv_sqrt_bias_correction2: 1.0 / (1.0 - betas.1.powf(step)).sqrt(),
        }
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
    lr: f64,
    optimizer: &'a mut AdamW,
    gradients: Gradients,
}

impl ModuleMapper for StepMapper<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(gradient) = self.gradients.remove(param.id) else {
            return param;
        };
        let id = param.id;
        param.map(|weight| {
            let trained = weight.is_require_grad();
            let weight = self.optimizer.update(id, weight.inner(), gradient, self.lr);
            weight.autodiff().set_require_grad(trained)
        })
    }
}

#[cfg(test)]
mod tests;
