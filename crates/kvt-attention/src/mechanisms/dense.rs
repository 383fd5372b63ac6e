//! Dense attention: every query sees every key.

use crate::{AttentionError, Cost, MechanismConfig, ParamInit, Place, SoftmaxAttention};

settings! {
    /// Scaled dot-product attention over all keys, `softmax(scale / temperature * q k^T + bias) v`
    /// ([Vaswani et al., 2017](https://arxiv.org/abs/1706.03762), equation 1).
    #[derive(Copy)]
    pub struct DenseConfig {
        /// Divisor of the scaled scores before the softmax. Beyond its range all scores are the same in 32 bits, or not
        /// finite.
        pub temperature: f64 = 1.0, range(min = 1e-6, max = 1e6);
    }
}

impl MechanismConfig for DenseConfig {
    const KIND: &'static str = "dense";

    const IS_SOFTMAX: bool = true;

    type Mechanism = SoftmaxAttention;

    fn fits(&self, _place: &Place) -> Result<(), AttentionError> {
        Ok(())
    }

    fn cost(&self, place: &Place) -> Cost {
        SoftmaxAttention::at(self.temperature).cost(place)
    }

    fn init(&self, _place: &Place, _init: &impl ParamInit) -> SoftmaxAttention {
        SoftmaxAttention::at(self.temperature)
    }
}
