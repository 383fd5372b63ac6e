//! The Performer with rectified features, which do not estimate the softmax.

use burn::module::Module;
use burn::tensor::activation::relu;
use burn::tensor::{DType, Tensor};

use super::draws::{Draws, Redraw};
use super::features::{self, Directions, attend_features};
use super::weighing::Qkv;
use crate::{Context, Cost, Mechanism, MechanismConfig, ParamInit, Place};

settings! {
    /// The generalised attention of the Performer, `phi(q) (phi(k)^T v) / (phi(q) sum phi(k))` with the features
    /// `phi(x) = relu(omega x) + kernel_epsilon`, for random directions omega
    /// ([Rethinking Attention with Performers, ICLR 2021](https://arxiv.org/abs/2009.14794)).
    ///
    /// It does not approximate the softmax, and has no scale. By default the authors' code has no random directions here,
    /// but `phi(x) = relu(x) + kernel_epsilon`: set `projected = false` for it.
    #[derive(Copy)]
    pub struct PerformerReluConfig {
        /// Features that replace the scores.
        pub features: usize = 256, range(min = 1, max = 65536);
        /// Whether features are made of random directions. Otherwise each is made of one entry of a query or key, and
        /// `features`, `orthogonal`, `redraw` and `seed` do nothing.
        pub projected: bool = true;
        /// Whether random directions are drawn orthogonal in blocks of `head_dim`.
        pub orthogonal: bool = true;
        /// When random numbers are drawn again: `step` in training at every step, `never`.
        pub redraw: Redraw = Redraw::default();
        /// Seed of the random numbers of evaluation.
        pub seed: u64 = 0;
        /// Added to every feature, so that none is zero.
        pub kernel_epsilon: f64 = 1e-3, range(min = 1e-12, max = 1.0);
    }
}

/// The module of [`PerformerReluConfig`].
#[derive(Module, Debug)]
pub struct PerformerRelu {
    #[module(skip)]
    directions: Option<Directions>,
    #[module(skip)]
    kernel_epsilon: f64,
}

impl MechanismConfig for PerformerReluConfig {
    const KIND: &'static str = "performer-relu";

    type Mechanism = PerformerRelu;

    fn cost(&self, place: &Place) -> Cost {
        let products = if self.projected {
            2 * self.features
        } else {
            place.head_dim
        };
        features::cost(place, products)
    }

    fn init(&self, _place: &Place, init: &impl ParamInit) -> PerformerRelu {
        let draws = Draws::new(self.seed, init.path(), self.redraw);
        let directions = Directions::new(self.features, self.orthogonal, draws);
        PerformerRelu {
            directions: self.projected.then_some(directions),
            kernel_epsilon: self.kernel_epsilon,
        }
    }
}

impl Mechanism for PerformerRelu {
    fn attend(&self, q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, context: Context) -> Tensor<4> {
        let draw = |directions: Directions| directions.draw(context.phase, 1, &q);
        let omega = self.directions.map(draw);
        self.attend_by([q, k, v], omega.as_ref())
    }
}

impl PerformerRelu {
    /// [`attend`](Mechanism::attend) with the directions `omega`, `[1, heads or 1, features, head_dim]`, or without
    /// them.
    fn attend_by(&self, [q, k, v]: Qkv, omega: Option<&Tensor<4>>) -> Tensor<4> {
        let [phi_q, phi_k] = [q, k].map(|x| {
            let x = x.cast(DType::F32);
            let x = match omega {
                Some(omega) => x.matmul(omega.clone().swap_dims(2, 3)),
                None => x,
            };
            relu(x) + self.kernel_epsilon
        });
        attend_features(phi_q, phi_k, v, 0.0)
    }
}

#[cfg(test)]
mod tests;
