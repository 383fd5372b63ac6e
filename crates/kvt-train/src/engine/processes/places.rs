//! The order of gradients, and their grouping into buckets.

use std::collections::HashMap;

use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::tensor::Tensor;

/// Elements per bucket, 4 MiB: large enough for the full bandwidth of the interconnect, small enough that communication starts
/// with the first layers.
pub(super) const BUCKET: usize = 1 << 20;

/// The parameters of a network in the order of its modules.
pub(super) struct Places {
    pub(super) ids: Vec<ParamId>,
    pub(super) lengths: Vec<usize>,
}

impl ModuleVisitor for Places {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.ids.push(param.id);
        self.lengths.push(param.val().shape().num_elements());
    }
}

impl Places {
    pub(super) fn of(network: &impl Module) -> Self {
        let mut places = Self {
            ids: Vec::new(),
            lengths: Vec::new(),
        };
        network.visit(&mut places);
        places
    }

    /// The tensor at each place, if there is one.
    pub(super) fn sort(&self, tensors: Vec<(ParamId, Tensor<1>)>) -> Vec<Option<Tensor<1>>> {
        let mut tensors: HashMap<_, _> = tensors.into_iter().collect();
        self.ids.iter().map(|id| tensors.remove(id)).collect()
    }

    /// Groups places into buckets of about [`BUCKET`] elements.
    pub(super) fn buckets(&self, places: impl Iterator<Item = usize>) -> Vec<Vec<usize>> {
        let mut buckets: Vec<Vec<usize>> = Vec::new();
        let mut filled = BUCKET;
        for place in places {
            if filled >= BUCKET {
                buckets.push(Vec::new());
                filled = 0;
            }
            filled += self.lengths.get(place).copied().unwrap_or_default();
            if let Some(bucket) = buckets.last_mut() {
                bucket.push(place);
            }
        }
        buckets
    }

    pub(super) fn length(&self, bucket: &[usize]) -> usize {
        let lengths = bucket.iter().filter_map(|place| self.lengths.get(*place));
        lengths.sum()
    }
}
