//! The Performer's FAVOR+: positive random features, which estimate the softmax.

use burn::module::Module;
use burn::tensor::{DType, Tensor};

use super::draws::{Draws, Redraw};
use super::features::{self, Directions, attend_features, half_square};
use super::weighing::Qkv;
use crate::{Context, Cost, Mechanism, MechanismConfig, ParamInit, Place};

settings! {
    /// FAVOR+, the attention of the Performer: `phi(q) (phi(k)^T v) / (phi(q) sum phi(k))` with the positive features
    /// `phi(x) = exp(omega x - |x|^2 / 2 - c) + kernel_epsilon` of `x`, which is q or k times the root of
    /// `scale / temperature`, for random directions omega
    /// ([Rethinking Attention with Performers, ICLR 2021](https://arxiv.org/abs/2009.14794), lemma 1). Products of
    /// features estimate `exp(scale / temperature * q k)` without bias, with a variance that grows exponentially with
    /// `|q + k|^2`; their ratio, the output, is biased.
    ///
    /// `c`, which cancels in the ratio, is the largest exponent of a query, and the largest of all keys. The authors' code
    /// takes the largest `omega x` instead, beside which the features of long vectors vanish in `kernel_epsilon`. Its
    /// orthogonal directions are those of a QR decomposition without a correction of the signs, which biases the
    /// estimate; here all directions are equally likely.
    #[derive(Copy)]
    pub struct PerformerConfig {
        /// Features that replace the scores.
        pub features: usize = 256, range(min = 1, max = 65536);
        /// Whether random directions are drawn orthogonal in blocks of `head_dim`.
        pub orthogonal: bool = true;
        /// When random numbers are drawn again: `step` in training at every step, `never`.
        pub redraw: Redraw = Redraw::default();
        /// Seed of the random numbers of evaluation.
        pub seed: u64 = 0;
        /// Added to every feature, so that none is zero.
        pub kernel_epsilon: f64 = 1e-6, range(min = 1e-12, max = 1.0);
        /// Divisor of the scaled scores before the softmax. Beyond its range all scores are the same in 32 bits, or not
        /// finite.
        pub temperature: f64 = 1.0, range(min = 1e-6, max = 1e6);
    }
}

/// The module of [`PerformerConfig`].
#[derive(Module, Debug)]
pub struct Performer {
    #[module(skip)]
    directions: Directions,
    #[module(skip)]
    config: PerformerConfig,
}

impl MechanismConfig for PerformerConfig {
    const KIND: &'static str = "performer";

    type Mechanism = Performer;

    fn cost(&self, place: &Place) -> Cost {
        features::cost(place, 2 * self.features)
    }

    fn init(&self, _place: &Place, init: &impl ParamInit) -> Performer {
        let draws = Draws::new(self.seed, init.path(), self.redraw);
        Performer {
            directions: Directions::new(self.features, self.orthogonal, draws),
            config: *self,
        }
    }
}

impl Mechanism for Performer {
    fn attend(&self, q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, context: Context) -> Tensor<4> {
        let omega = self.directions.draw(context.phase, 1, &q);
        self.attend_by([q, k, v], &omega, context.scale)
    }
}

impl Performer {
    /// [`attend`](Mechanism::attend) with the directions `omega`, `[1, heads or 1, features, head_dim]`.
    fn attend_by(&self, [q, k, v]: Qkv, omega: &Tensor<4>, scale: f64) -> Tensor<4> {
        let root = (scale / self.config.temperature).sqrt();
        let [q, k] = [q, k].map(|x| exponents(x.cast(DType::F32) * root, omega.clone()));
        // May be any constants, since their factors cancel in the ratio.
        let largest_q = q.clone().detach().max_dim(3);
        let largest_k = k.clone().detach().max_dims(&[3, 2]);
        let phi_q = (q - largest_q).exp() + self.config.kernel_epsilon;
        let phi_k = (k - largest_k).exp() + self.config.kernel_epsilon;
        attend_features(phi_q, phi_k, v, 0.0)
    }
}

/// The logarithms of the features, `omega x - |x|^2 / 2`: `[batch, heads, token, feature]`.
fn exponents(x: Tensor<4>, omega: Tensor<4>) -> Tensor<4> {
    let half_square = half_square(x.clone());
    x.matmul(omega.swap_dims(2, 3)) - half_square
}

#[cfg(test)]
mod tests;
