//! For tests: a mechanism that has weights and makes no scores.

use burn::module::{Module, Param};
use burn::tensor::Tensor;

use crate::{
    AttentionError, Context, Cost, Law, Macs, Mechanism, MechanismConfig, ParamInit, Place,
};

settings! {
    /// Every query gets the same learned mean of the values, `sum_j weight_j v_j`.
    pub struct MeanConfig {
        /// Multiplies the initial weights `1 / keys`.
        pub gain: f32 = 1.0;
    }
}

/// The module of [`MeanConfig`].
#[derive(Module, Debug)]
pub struct Mean {
    /// `[1, 1, 1, keys]`.
    weight: Param<Tensor<4>>,
}

impl MechanismConfig for MeanConfig {
    const KIND: &'static str = "mean";

    type Mechanism = Mean;

    fn fits(&self, place: &Place) -> Result<(), AttentionError> {
        place.without_scores(Self::KIND)?;
        if place.keys == 0 {
            return Err(AttentionError::misplaced(
                Self::KIND,
                "has a weight for every key",
                "say how many tokens there are",
            ));
        }
        Ok(())
    }

    fn cost(&self, place: &Place) -> Cost {
        Cost {
            params: place.keys,
            macs: Macs::attention(place.keys * place.dim()),
            kept: place.keys,
        }
    }

    fn init(&self, place: &Place, init: &impl ParamInit) -> Mean {
        let law = Law::Constant(self.gain / place.keys as f32);
        Mean {
            weight: init.param("weight", [1, 1, 1, place.keys], law),
        }
    }
}

impl Mechanism for Mean {
    fn attend(&self, q: Tensor<4>, _k: Tensor<4>, v: Tensor<4>, _: Context) -> Tensor<4> {
        let [batch, heads, queries, _] = q.dims();
        let ([.., keys, dim], weight) = (v.dims(), self.weight.val());
        let mean = weight.expand([batch, heads, 1, keys]).matmul(v);
        mean.expand([batch, heads, queries, dim])
    }
}
