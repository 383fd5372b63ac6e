//! Poolingformer: a window of tokens, and a larger window of pooled tokens.

use burn::module::Module;
use burn::tensor::{DType, Tensor};

use super::band::{self, Band, Window};
use super::weighing::Weighing;
use crate::{AttentionError, Context, Cost, Mechanism, MechanismConfig, ParamInit, Place, Ranged};

settings! {
    /// Two levels of attention (Zhang et al., [Poolingformer](https://arxiv.org/abs/2105.04371), ICML 2021): softmax attention
    /// to the tokens in a window, plus softmax attention to the means of pooled tokens in a larger window. On a map
    /// windows and pools are squares; tokens that form no map are one row. Tokens before the map see all tokens and are
    /// seen, unpooled, by all. We know of no public code of the authors. The second level takes the queries, keys and values of
    /// the first, without projections in between, and pools are plain means, without learned weights. The authors' windows
    /// have 128 and 512 tokens of text; by default they are squares of 11 by 11 and 23 by 23 tokens here.
    pub struct PoolingformerConfig {
        /// Radius of the windows around a token, in tokens of the map.
        pub radius: usize = 5, range(min = 0, max = 1024);
        /// Distance from a token to the centre of the farthest pool that it sees, in tokens of the map.
        pub pool_radius: usize = 11, range(min = 0, max = 1024);
        /// Side of the squares of tokens whose means are the keys and values of the second level.
        pub pool: usize = 5, range(min = 1, max = 1024);
        /// Tokens from one pool to the next, at most `pool`.
        pub stride: usize = 4, range(min = 1, max = 1024);
        /// Divisor of the scaled scores before the softmax. Beyond its range all scores are the same in 32 bits, or not
        /// finite.
        pub temperature: f64 = 1.0, range(min = 1e-6, max = 1e6);
    }
}

impl PoolingformerConfig {
    /// Windows of tokens, and of pools.
    fn windows(&self) -> [Window; 2] {
        let pools = Window {
            radius: self.pool_radius,
            pool: self.pool,
            stride: self.stride,
        };
        [Window::of_tokens(self.radius), pools]
    }
}

/// The module of [`PoolingformerConfig`].
#[derive(Module, Debug)]
pub struct Poolingformer {
    #[module(skip)]
    config: PoolingformerConfig,
}

impl MechanismConfig for PoolingformerConfig {
    const KIND: &'static str = "poolingformer";

    type Mechanism = Poolingformer;

    fn validate(&self) -> Result<(), AttentionError> {
        self.check_ranges()?;
        if self.stride > self.pool {
            return Err(AttentionError::Setting(
                "`stride` must be at least 1 and at most `pool`, so that every token is in a pool",
            ));
        }
        if self.pool_radius < self.pool / 2 {
            return Err(AttentionError::Setting(
                "`pool_radius` must be at least half of `pool`, rounded down, so that every token sees a pool",
            ));
        }
        Ok(())
    }

    fn fits(&self, place: &Place) -> Result<(), AttentionError> {
        band::fits(Self::KIND, place)
    }

    fn cost(&self, place: &Place) -> Cost {
        let [near, far] = self.windows().map(|window| Band::at(place, window));
        let pairs = near.pairs() + far.pairs();
        let kept = near.reach().max(far.reach()).min(place.keys);
        Cost::of_products(2 * pairs * place.dim(), kept)
    }

    fn init(&self, _place: &Place, _init: &impl ParamInit) -> Poolingformer {
        Poolingformer {
            config: self.clone(),
        }
    }
}

impl Mechanism for Poolingformer {
    fn attend(&self, q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, context: Context) -> Tensor<4> {
        let (tokens, dtype) = (q.dims()[2], q.dtype());
        let [q, k, v] = [q, k, v].map(|x| x.cast(DType::F32));
        let [near, far] = self
            .config
            .windows()
            .map(|window| Band::new(tokens, context.prefix, context.grid, window));
        let weighing = Weighing::new(self.config.temperature, &context);
        let first = near.attend([&q, &k, &v].map(Clone::clone), &weighing);
        let pools = weighing.named("pool");
        let second = far.attend([q, far.pool(k), far.pool(v)], &pools);
        (first + second).cast(dtype)
    }
}

#[cfg(test)]
mod tests;
