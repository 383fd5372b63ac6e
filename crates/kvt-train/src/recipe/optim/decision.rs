//! Updates that the device makes or not, while the host goes on.

use std::collections::HashMap;

use burn::module::{Module, ParamId};
use burn::tensor::Tensor;
use kvt_ops::Guard;

use super::{OptimName, Optimizer, Rates};
use crate::recipe::Gradients;

/// The number of updates of an optimizer, in total and per parameter.
#[derive(Debug)]
pub(crate) struct Counts {
    updates: u32,
    steps: HashMap<ParamId, u32>,
    beginnings: u64,
}

impl Optimizer {
    /// Whether the device can decide about updates: it can about those of AdamW.
    pub(crate) fn supports_device_decision(&self) -> bool {
        self.config.name == OptimName::Adamw
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
    pub(super) fn begin_anew(&mut self) {
        self.guard = None;
        self.beginnings += 1;
    }
}
