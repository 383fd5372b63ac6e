//! Luna: attention through a summary whose keys are its values.

use super::inducing::InducedAttention;
use crate::{AttentionError, Cost, Law, Macs, MechanismConfig, ParamInit, Place, SoftmaxAttention};

settings! {
    /// Pack and unpack: learned points attend to the tokens, `z = attend(points, k, v)`, and the tokens to the packed
    /// points, `attend(q, W z, W z)` ([Luna: Linear Unified Nested Attention, NeurIPS
    /// 2021](https://arxiv.org/abs/2106.01540), section 3.1). The authors hand the packed points of a layer to the next one;
    /// here every layer has its own points, so that Luna is `inducing` with one projection instead of two. The tokens
    /// have the keys and the values of the model around the mechanism, which the authors' code ties as well.
    #[derive(Copy)]
    pub struct LunaConfig {
        /// Learned points that summarise the keys.
        pub points: usize = 16, range(min = 1, max = 65536);
        /// Whether the keys of the packed points are their values: the default of the authors' layer, which their models for
        /// the Long Range Arena switch off.
        pub tied: bool = true;
        /// Divisor of the scaled scores before the softmax. Beyond its range all scores are the same in 32 bits, or not
        /// finite.
        pub temperature: f64 = 1.0, range(min = 1e-6, max = 1e6);
    }
}

impl LunaConfig {
    /// Output channels of the projection of the packed points.
    fn outputs(&self, dim: usize) -> usize {
        if self.tied { dim } else { 2 * dim }
    }

    /// The module, with initial points by a law.
    pub(super) fn make(
        &self,
        place: &Place,
        init: &impl ParamInit,
        points: Law,
    ) -> InducedAttention {
        let dim = place.dim();
        InducedAttention {
            points: init.param("points", [1, self.points, dim], points),
            kv: init.linear("kv", dim, self.outputs(dim), true),
            softmax: SoftmaxAttention::at(self.temperature),
        }
    }
}

impl MechanismConfig for LunaConfig {
    const KIND: &'static str = "luna";

    type Mechanism = InducedAttention;

    fn fits(&self, place: &Place) -> Result<(), AttentionError> {
        place.without_bias(Self::KIND)
    }

    fn cost(&self, place: &Place) -> Cost {
        let (points, dim) = (self.points, place.dim());
        let outputs = self.outputs(dim);
        let projection = Macs::linear(points * dim * outputs);
        let products = Macs::attention(2 * (place.keys + place.queries) * points * dim);
        Cost {
            params: points * dim + (dim + 1) * outputs,
            macs: projection + products,
            kept: place.keys,
        }
    }

    fn init(&self, place: &Place, init: &impl ParamInit) -> InducedAttention {
        let std = (place.dim() as f32).powf(-0.5);
        self.make(place, init, Law::Normal { std })
    }
}
