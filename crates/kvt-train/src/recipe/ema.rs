//! An exponential moving average of the weights, as timm's `ModelEmaV2` keeps it: over the whole state
//! dict, with a constant decay, from a copy of the initial weights on.

use std::collections::HashMap;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::tensor::Tensor;
use kvt_models::Model;

use super::gradients::flat;
use crate::schema::section;

section! {
    /// An exponential moving average (EMA) of the weights, kept beside them.
    pub struct EmaConfig {
        /// How much of the average stays at each update, `ema = decay * ema + (1 - decay) * weights`; DeiT's is
        /// 0.99996. 0 keeps no average.
        pub decay: f64 = 0.0, "x-range" = "[0, 1)";
    }
}

/// The average of a model over its updates: every parameter, and every running statistic of a batch
/// norm.
///
/// There is no `Clone`: running statistics share their values with their clones.
#[derive(Debug)]
pub struct Ema {
    decay: f64,
    model: Model,
}

impl Ema {
    /// An average that starts as the model is. `decay`, in [0, 1), is the share of the average that
    /// stays at each update.
    pub fn new(decay: f64, model: &Model) -> Self {
        Self {
            decay,
            // Without autodiff, and with running statistics of its own: a clone has neither.
            model: model.valid(),
        }
    }

    /// The average after one more update of the model: `decay * ema + (1 - decay) * model`.
    #[must_use]
    pub fn update(self, model: &Model) -> Self {
        let mut weights = Weights(HashMap::new());
        model.visit(&mut weights);
        let mut step = Step {
            weights: weights.0,
            decay: self.decay,
        };
        Self {
            decay: self.decay,
            model: self.model.map(&mut step),
        }
    }

    /// The averaged model, without autodiff.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// This average with another state, as a checkpoint has it.
    ///
    /// # Errors
    /// What `load` returns.
    pub fn restore<E>(self, load: impl FnOnce(Model) -> Result<Model, E>) -> Result<Self, E> {
        Ok(Self {
            decay: self.decay,
            model: load(self.model)?,
        })
    }
}

/// The state of the trained model, flat and without its graphs.
struct Weights(HashMap<ParamId, Tensor<1>>);

impl ModuleVisitor for Weights {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.0.insert(param.id, flat(param.val().inner()));
    }
}

struct Step {
    weights: HashMap<ParamId, Tensor<1>>,
    decay: f64,
}

impl ModuleMapper for Step {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(weight) = self.weights.remove(&param.id) else {
            return param;
        };
        param.map(|average| {
            let weight = weight.reshape(average.shape());
            average * self.decay + weight * (1.0 - self.decay)
        })
    }
}

#[cfg(test)]
mod tests;
