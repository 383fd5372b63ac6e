//! Attention through a summary: learned points attend to the tokens, and the tokens attend to the summary.

use burn::module::{Module, Param};
use burn::nn::Linear;
use burn::tensor::{DType, Tensor};
use kvt_ops::linear;

use super::weighing::Weighing;
use crate::{
    AttentionError, Context, Cost, Law, LunaConfig, Mechanism, MechanismConfig, ParamInit, Place,
    SoftmaxAttention, merge_heads, split_heads,
};

settings! {
    /// Learned points attend to the tokens, and the tokens to what the points took: `z = attend(points, k, v)`, then
    /// `attend(q, W_k z, W_v z)` ([Set Transformer, ICML 2019](https://arxiv.org/abs/1810.00825), the two attentions of an
    /// induced set attention block, equations 9 and 10). The authors' block also has a residual and an MLP after each attention
    /// and scales by the width of all heads; here the scale is that of the model around the mechanism, whose blocks have residuals and
    /// MLPs already, and the points are not projected, since projected points are points.
    #[derive(Copy)]
    pub struct InducingConfig {
        /// Learned points that summarise the keys.
        pub points: usize = 32, range(min = 1, max = 65536);
        /// Divisor of the scaled scores before the softmax. Beyond its range all scores are the same in 32 bits, or not
        /// finite.
        pub temperature: f64 = 1.0, range(min = 1e-6, max = 1e6);
    }
}

impl InducingConfig {
    /// The same as Luna, but for the initial points.
    fn luna(&self) -> LunaConfig {
        LunaConfig {
            points: self.points,
            tied: false,
            temperature: self.temperature,
        }
    }
}

impl MechanismConfig for InducingConfig {
    const KIND: &'static str = "inducing";

    type Mechanism = InducedAttention;

    fn fits(&self, place: &Place) -> Result<(), AttentionError> {
        place.without_bias(Self::KIND)
    }

    fn cost(&self, place: &Place) -> Cost {
        self.luna().cost(place)
    }

    fn init(&self, place: &Place, init: &impl ParamInit) -> InducedAttention {
        // The `xavier_uniform_` of a matrix with a row for every point.
        let bound = (6.0 / (self.points + place.dim()) as f32).sqrt();
        self.luna().make(place, init, Law::Uniform { bound })
    }
}

/// The module of [`InducingConfig`] and of [`LunaConfig`].
#[derive(Module, Debug)]
pub struct InducedAttention {
    /// `[1, points, dim]`.
    pub(super) points: Param<Tensor<3>>,
    /// From the summary to its keys and values, in this order, or to one tensor that serves as both.
    pub(super) kv: Linear,
    pub(super) softmax: SoftmaxAttention,
}

impl Mechanism for InducedAttention {
    fn attend(&self, q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, context: Context) -> Tensor<4> {
        let ([batch, heads, ..], dtype) = (q.dims(), q.dtype());
        let weighing = Weighing::new(self.softmax.temperature, &context);
        let [points] = split_heads(self.points.val().cast(dtype), heads);
        let [_, _, count, head_dim] = points.dims();
        let points = points.expand([batch, heads, count, head_dim]);
        // The two attentions drop different weights.
        let summary = merge_heads(weighing.named("points").attend(points, k, v));

        let dim = heads * head_dim;
        let kv = linear(&self.kv, summary.cast(DType::F32)).cast(dtype);
        let [k, v] = if kv.dims()[2] == dim {
            let [both] = split_heads(kv, heads);
            [both.clone(), both]
        } else {
            split_heads(kv, heads)
        };
        weighing.attend(q, k, v)
    }
}

#[cfg(test)]
mod tests;
