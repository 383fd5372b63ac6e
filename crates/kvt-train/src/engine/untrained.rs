//! The state of a network that changes without being trained.

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::tensor::Tensor;

use crate::recipe::flat;

/// The state of a network that changes without being trained, such as the running statistics of batch norms, in the order of its
/// modules: the forward pass changes it, and clones share it.
#[derive(Debug)]
pub(super) struct Untrained(pub(super) Vec<(ParamId, Tensor<1>)>);

impl Untrained {
    pub(super) fn of(network: &impl Module) -> Self {
        let mut found = Self(Vec::new());
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
            self.0.push((param.id, flat(value)));
        }
    }
}

impl ModuleMapper for Untrained {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(at) = self.0.iter().position(|(id, _)| *id == param.id) else {
            return param;
        };
        let (_, before) = self.0.swap_remove(at);
        param.map(|now| before.reshape(now.shape()))
    }
}
