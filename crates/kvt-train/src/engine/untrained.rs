//! What a network remembers without being trained.

use std::collections::HashMap;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::tensor::Tensor;

use crate::recipe::flat;

/// What a network remembers without being trained, such as the running statistics of batch norms: its forward pass changes
/// them, and a clone shares them.
#[derive(Debug)]
pub(super) struct Untrained(HashMap<ParamId, Tensor<1>>);

impl Untrained {
    pub(super) fn of(network: &impl Module) -> Self {
        let mut found = Self(HashMap::new());
        network.visit(&mut found);
        found
    }

    /// Gives the network, and all that share with it, what was found before.
    pub(super) fn put_back<M: Module>(mut self, network: &M) {
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
