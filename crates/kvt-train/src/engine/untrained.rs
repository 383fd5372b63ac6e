//! The state of a network that changes without being trained.

use std::collections::HashMap;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::tensor::Tensor;

use crate::recipe::flat;

/// The state of a network that changes without being trained, such as the running statistics of batch norms: the forward pass
/// changes it, and clones share it.
#[derive(Debug)]
pub(super) struct Untrained(HashMap<ParamId, Tensor<1>>);

impl Untrained {
    pub(super) fn of(network: &impl Module) -> Self {
        let mut found = Self(HashMap::new());
        network.visit(&mut found);
        found
    }

    /// Restores this state in the network, and in all clones that share it.
    pub(super) fn restore<M: Module>(mut self, network: &M) {
        let _shared = network.clone().map(&mut self);
    }
}

impl ModuleVisitor for Untrained {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let value = param.val();
        if !value.is_require_grad() {
            self.0.insert(param.id, flat(value));
        }
    }
}

impl ModuleMapper for Untrained {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        match self.0.remove(&param.id) {
            Some(before) => param.map(|now| before.reshape(now.shape())),
            None => param,
        }
    }
}
