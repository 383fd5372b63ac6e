//! Random feature attention: trigonometric features of unit vectors, with learned widths.

use burn::module::{Module, Param};
use burn::tensor::{DType, Tensor};

use super::draws::{Draws, Redraw};
use super::features::{self, Directions, attend_signed_features, half_square, waves};
use crate::{Context, Cost, Law, Mechanism, MechanismConfig, ParamInit, Place};

settings! {
    /// Random feature attention, `phi(q) (phi(k)^T v) / (phi(q) sum phi(k))` with the features
    /// `phi(x) = [sin(w x / |x|), cos(w x / |x|)] / sqrt(m)` for m random directions `w = sigma * omega / tau`, drawn for
    /// every head, and learned widths sigma, which begin at 1
    /// ([Random Feature Attention, ICLR 2021](https://arxiv.org/abs/2103.02143)). At first products of features estimate
    /// `exp((cos(q, k) - 1) / tau^2)`: the softmax of cosines, without a scale.
    ///
    /// The authors' code replaces denominators below 1 by 1, which drops their sign and lets weights sum to less than one,
    /// and multiplies features by 0.1 instead of `1 / sqrt(m)`; here `2 * epsilon` are added to a denominator that is not
    /// further than `epsilon` from zero. Unit vectors are `x / sqrt(|x|^2 + 1e-6)`, which has a gradient at 0. The
    /// gate of the paper is for causal attention. With `orthogonal = true` rows are orthogonal, which the authors' are not.
    #[derive(Copy)]
    pub struct RfaConfig {
        /// Features that replace the scores.
        pub features: usize = 64, range(min = 1, max = 65536);
        /// Whether random directions are drawn orthogonal in blocks of `head_dim`.
        pub orthogonal: bool = false;
        /// When random numbers are drawn again: `step` in training at every step, `never`.
        pub redraw: Redraw = Redraw::default();
        /// Seed of the random numbers of evaluation.
        pub seed: u64 = 0;
        /// Divisor of unit vectors before the features: its square is the temperature of their cosines.
        pub tau: f64 = 1.0, range(min = 0.01, max = 100.0);
        /// Added to denominators, so that none is zero.
        pub epsilon: f64 = 1e-3, range(min = 1e-12, max = 1.0);
    }
}

/// The module of [`RfaConfig`].
#[derive(Module, Debug)]
pub struct Rfa {
    /// Widths of the directions of every head, `[heads, 1, head_dim]`.
    sigma: Param<Tensor<3>>,
    #[module(skip)]
    directions: Directions,
    #[module(skip)]
    config: RfaConfig,
}

impl MechanismConfig for RfaConfig {
    const KIND: &'static str = "rfa";

    type Mechanism = Rfa;

    /// Every direction has two features.
    fn cost(&self, place: &Place) -> Cost {
        Cost {
            params: place.dim(),
            ..features::cost(place, 3 * self.features)
        }
    }

    fn init(&self, place: &Place, init: &impl ParamInit) -> Rfa {
        let draws = Draws::new(self.seed, init.path(), self.redraw);
        let shape = [place.heads, 1, place.head_dim];
        Rfa {
            sigma: init.param("sigma", shape, Law::Constant(1.0)),
            directions: Directions::new(self.features, self.orthogonal, draws),
            config: *self,
        }
    }
}

impl Mechanism for Rfa {
    fn attend(&self, q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, context: Context) -> Tensor<4> {
        let omega = self.directions.draw(context.phase, q.dims()[1], &q);
        self.attend_by(q, k, v, omega)
    }
}

impl Rfa {
    /// [`attend`](Mechanism::attend) with the directions `omega`, `[1, heads, features, head_dim]`.
    fn attend_by(&self, q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, omega: Tensor<4>) -> Tensor<4> {
        let sigma = self.sigma.val().cast(DType::F32);
        let omega = omega * (sigma.unsqueeze::<4>() / self.config.tau);
        let [phi_q, phi_k] = [q, k].map(|x| waves(unit(x.cast(DType::F32)), omega.clone()));
        attend_signed_features([phi_q, phi_k, v], self.config.epsilon)
    }
}

/// Vectors scaled to length 1, except those that are almost zero.
fn unit(x: Tensor<4>) -> Tensor<4> {
    let length = (half_square(x.clone()) * 2.0 + 1e-6).sqrt();
    x / length
}

#[cfg(test)]
mod tests;
