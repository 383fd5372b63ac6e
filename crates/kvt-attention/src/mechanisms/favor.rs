//! FAVOR, the first version of the Performer: trigonometric random features.

use burn::module::Module;
use burn::tensor::{DType, Tensor};

use super::draws::{Draws, Redraw};
use super::features::{self, Directions, attend_signed_features, half_square, waves};
use super::weighing::Qkv;
use crate::{Context, Cost, Mechanism, MechanismConfig, ParamInit, Place};

settings! {
    /// FAVOR, the attention of the first Performer: `phi(q) (phi(k)^T v) / (phi(q) sum phi(k))` with the features
    /// `phi(x) = exp(|x|^2 / 2) [sin(omega x), cos(omega x)] / sqrt(m)` of `x`, which is q or k times the root of
    /// `scale / temperature`, for m random directions omega
    /// ([Masked Language Modeling for Proteins, 2020](https://arxiv.org/abs/2006.03555)). Products of features estimate
    /// `exp(scale / temperature * q k)` without bias.
    ///
    /// Estimates may be negative, and so may their sum, by which the output is divided: training may diverge. It is here
    /// to be compared with `performer`, which replaced it. As in the authors' code, `2 * epsilon` are added to a
    /// denominator that is not further than `epsilon` from zero. The factor `exp(|x|^2 / 2)` of a query cancels in the
    /// ratio, and is left out.
    #[derive(Copy)]
    pub struct FavorConfig {
        /// Features that replace the scores.
        pub features: usize = 256, range(min = 1, max = 65536);
        /// Whether random directions are drawn orthogonal in blocks of `head_dim`.
        pub orthogonal: bool = true;
        /// When random numbers are drawn again: `step` in training at every step, `never`.
        pub redraw: Redraw = Redraw::default();
        /// Seed of the random numbers of evaluation.
        pub seed: u64 = 0;
        /// Added to denominators, so that none is zero.
        pub epsilon: f64 = 1e-6, range(min = 1e-12, max = 1.0);
        /// Divisor of the scaled scores before the softmax. Beyond its range all scores are the same in 32 bits, or not
        /// finite.
        pub temperature: f64 = 1.0, range(min = 1e-6, max = 1e6);
    }
}

/// The module of [`FavorConfig`].
#[derive(Module, Debug)]
pub struct Favor {
    #[module(skip)]
    directions: Directions,
    #[module(skip)]
    config: FavorConfig,
}

impl MechanismConfig for FavorConfig {
    const KIND: &'static str = "favor";

    type Mechanism = Favor;

    /// Every direction has two features.
    fn cost(&self, place: &Place) -> Cost {
        features::cost(place, 3 * self.features)
    }

    fn init(&self, _place: &Place, init: &impl ParamInit) -> Favor {
        let draws = Draws::new(self.seed, init.path(), self.redraw);
        Favor {
            directions: Directions::new(self.features, self.orthogonal, draws),
            config: *self,
        }
    }
}

impl Mechanism for Favor {
    fn attend(&self, q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, context: Context) -> Tensor<4> {
        let omega = self.directions.draw(context.phase, 1, &q);
        self.attend_by([q, k, v], omega, context.scale)
    }
}

impl Favor {
    /// [`attend`](Mechanism::attend) with the directions `omega`, `[1, heads or 1, features, head_dim]`.
    fn attend_by(&self, [q, k, v]: Qkv, omega: Tensor<4>, scale: f64) -> Tensor<4> {
        let root = (scale / self.config.temperature).sqrt();
        let [q, k] = [q, k].map(|x| x.cast(DType::F32) * root);
        let length = half_square(k.clone());
        // May be any constant, since its factor cancels in the ratio.
        let largest = length.clone().detach().max_dim(2);
        let phi_k = waves(k, omega.clone()) * (length - largest).exp();
        attend_signed_features([waves(q, omega), phi_k, v], self.config.epsilon)
    }
}

#[cfg(test)]
mod tests;
