//! FMMformer: softmax attention to a window, kernel attention to all tokens.

use burn::module::{Module, Param};
use burn::tensor::{DType, Tensor};

use super::band::{self, Band, Window};
use super::features::attend_features;
use super::linear::elu_features;
use super::weighing::Weighing;
use crate::{
    AttentionError, Context, Cost, Law, Macs, Mechanism, MechanismConfig, ParamInit, Place,
};

settings! {
    /// Low-rank plus band attention by the formula of FMMformer (Nguyen et al.,
    /// [FMMformer](https://arxiv.org/abs/2108.02347), NeurIPS 2021): `near` times the softmax attention to a window, plus,
    /// summed over feature maps `phi`, `far` times the kernel attention
    /// `phi(q) (phi(k)^T v) / (phi(q) sum phi(k) + epsilon)` to all tokens. `near` and `far` are learned for each head.
    /// This is not the attention of Guo et al. (Low-Rank and Locality Constrained Self-Attention, 2019), whose low-rank part is
    /// a module with a small head dimension. On a map windows are squares; tokens that form no map are one row. Tokens
    /// before the map see all tokens and are seen by all. The authors' code has many blends; here both parts begin
    /// with a weight of one half. It makes the band from all scores; here long sequences are cut into tiles. Its band of width
    /// 10 is for text; by default a window is a square of 5 by 5 tokens here.
    pub struct LowRankBandConfig {
        /// Radius of the windows around a token, in tokens of the map.
        pub radius: usize = 2, range(min = 0, max = 1024);
        /// Feature maps of the far part: one is `elu(x) + 1`, the second `elu(-x) + 1`, the third `tanh(x) + 1`.
        pub maps: usize = 1, range(min = 1, max = 3);
        /// Added to denominators, so that none is zero.
        pub epsilon: f64 = 1e-6, range(min = 1e-12, max = 1.0);
    }
}

/// The module of [`LowRankBandConfig`].
#[derive(Module, Debug)]
pub struct LowRankBand {
    /// Weight of the window, `[heads]`.
    near: Param<Tensor<1>>,
    /// Weights of the feature maps, `[maps, heads]`.
    far: Param<Tensor<2>>,
    #[module(skip)]
    radius: usize,
    #[module(skip)]
    epsilon: f64,
}

impl MechanismConfig for LowRankBandConfig {
    const KIND: &'static str = "low-rank-band";

    type Mechanism = LowRankBand;

    fn fits(&self, place: &Place) -> Result<(), AttentionError> {
        if place.dropout > 0.0 {
            return Err(AttentionError::misplaced(
                Self::KIND,
                "makes no attention weights beyond its window that could be dropped",
                "set `attn_drop` to 0",
            ));
        }
        band::fits(Self::KIND, place)
    }

    fn cost(&self, place: &Place) -> Cost {
        let band = Band::at(place, Window::of_tokens(self.radius));
        let kernels = self.maps * place.keys * place.head_dim;
        Cost {
            params: (1 + self.maps) * place.heads,
            macs: Macs::attention(2 * (band.pairs() + kernels) * place.dim()),
            kept: place.keys,
        }
    }

    fn init(&self, place: &Place, init: &impl ParamInit) -> LowRankBand {
        let far = Law::Constant(0.5 / self.maps as f32);
        LowRankBand {
            near: init.param("near", [place.heads], Law::Constant(0.5)),
            far: init.param("far", [self.maps, place.heads], far),
            radius: self.radius,
            epsilon: self.epsilon,
        }
    }
}

impl Mechanism for LowRankBand {
    fn attend(&self, q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, context: Context) -> Tensor<4> {
        let ([_, heads, tokens, _], dtype) = (q.dims(), q.dtype());
        let window = Window::of_tokens(self.radius);
        let band = Band::new(tokens, context.prefix, context.grid, window);
        let weighing = Weighing::new(1.0, &context);
        let [q, k, v] = [q, k, v].map(|x| x.cast(DType::F32));
        let near = band.attend([&q, &k, &v].map(Clone::clone), &weighing);
        let near = near * for_heads(self.near.val(), heads);
        let far = self.far.val();
        let maps = MAPS.iter().zip(far.iter_dim(0));
        let out = maps.fold(near, |out, (phi, weight)| {
            let part = attend_features(phi(q.clone()), phi(k.clone()), v.clone(), self.epsilon);
            out + part * for_heads(weight.squeeze_dim(0), heads)
        });
        out.cast(dtype)
    }
}

/// Weights of heads, `[1, heads, 1, 1]`, repeated for windows that are folded into the heads, window by window.
fn for_heads(weights: Tensor<1>, heads: usize) -> Tensor<4> {
    let len = weights.dims()[0];
    let weights = weights.reshape([1, len, 1, 1]).cast(DType::F32);
    weights.repeat_dim(1, heads / len)
}

/// Positive features, in the order in which they are added.
const MAPS: [fn(Tensor<4>) -> Tensor<4>; 3] =
    [elu_features, |x| elu_features(x.neg()), |x| x.tanh() + 1.0];

#[cfg(test)]
mod tests;
