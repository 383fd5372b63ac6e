//! An exponential moving average of the weights, as in timm's `ModelEmaV2`: over the whole state dict, starting from a
//! copy of the initial weights.

use std::collections::{HashMap, HashSet};

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::tensor::Tensor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::gradients::flat;
use kvt_data::schema::section;

section! {
    /// An exponential moving average (EMA) of the weights, kept beside them.
    pub struct EmaConfig {
        /// How much of the average stays at each update, `ema = decay * ema + (1 - decay) * weights`; DeiT's is
        /// 0.99996. 0 keeps no average.
        pub decay: f64 = 0.0, "x-range" = "[0, 1)";
        /// Whether the decay begins at 0 and rises to `ema.decay`, `1 - (1 + updates)^(-2/3)` at first: for short runs.
        pub warmup: bool = false;
        /// The weights by which the best checkpoint is chosen, and which `kvt eval`, `kvt predict` and `kvt compare` take.
        pub report: EmaReport = EmaReport::Raw;
    }
}

/// Which weights a run is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EmaReport {
    /// The trained ones.
    Raw,
    /// Their average; it takes an `ema.decay` above 0.
    Ema,
}

impl EmaConfig {
    /// The decay of the update that follows `updates` others. The warm-up is that of timm's `ModelEmaV3`, which counts
    /// from 1.
    pub fn decay_after(&self, updates: u64) -> f64 {
        if self.warmup {
            let rising = 1.0 - (1.0 + updates as f64).powf(-2.0 / 3.0);
            rising.min(self.decay)
        } else {
            self.decay
        }
    }
}

/// The average of a network over its updates: every parameter, and every running statistic of a batch
/// norm.
///
/// It is not `Clone`: running statistics share their values with their clones.
#[derive(Debug)]
pub struct Ema<N> {
    network: N,
    /// Parameters that are not averaged.
    frozen: HashSet<ParamId>,
}

impl<N: Module> Ema<N> {
    /// An average that starts with the weights of the network. Frozen parameters stay as they are: those that training does not change
    /// must not change by rounding either.
    pub fn new(network: &N, frozen: impl IntoIterator<Item = ParamId>) -> Self {
        Self {
            // Without autodiff, and with running statistics that a clone would share.
            network: network.valid(),
            frozen: frozen.into_iter().collect(),
        }
    }

    /// The average after one more update of the network: `decay * ema + (1 - decay) * network`.
    ///
    /// `decay`, in [0, 1], is the fraction of the average that is kept. It can change from update to update: a schedule
    /// is a function of the [`Position`](super::Position), evaluated by the caller.
    #[must_use]
    pub fn update(self, network: &N, decay: f64) -> Self {
        let mut current = State(HashMap::new());
        network.visit(&mut current);
        current.0.retain(|id, _| !self.frozen.contains(id));
        let mut average = Average {
            current: current.0,
            decay,
        };
        Self {
            network: self.network.map(&mut average),
            frozen: self.frozen,
        }
    }

    /// As [`update`](Self::update), in place.
    pub fn follow(&mut self, network: &N, decay: f64) {
        let before = Self {
            network: self.network.clone(),
            frozen: std::mem::take(&mut self.frozen),
        };
        *self = before.update(network, decay);
    }

    /// As [`restore`](Self::restore), in place.
    ///
    /// # Errors
    /// What `load` returns.
    pub fn reload<E>(&mut self, load: impl FnOnce(N) -> Result<N, E>) -> Result<(), E> {
        self.network = load(self.network.clone())?;
        Ok(())
    }

    /// The averaged network, without autodiff.
    pub fn network(&self) -> &N {
        &self.network
    }

    /// This average with another state, such as that of a checkpoint.
    ///
    /// # Errors
    /// What `load` returns.
    pub fn restore<E>(self, load: impl FnOnce(N) -> Result<N, E>) -> Result<Self, E> {
        Ok(Self {
            network: load(self.network)?,
            frozen: self.frozen,
        })
    }
}

/// The state of the trained network, flat and without autodiff graphs.
struct State(HashMap<ParamId, Tensor<1>>);

impl ModuleVisitor for State {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.0.insert(param.id, flat(param.val().inner()));
    }
}

struct Average {
    current: HashMap<ParamId, Tensor<1>>,
    decay: f64,
}

impl ModuleMapper for Average {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(current) = self.current.remove(&param.id) else {
            return param;
        };
        param.map(|average| {
            let current = current.reshape(average.shape());
            average * self.decay + current * (1.0 - self.decay)
        })
    }
}

#[cfg(test)]
mod tests;
