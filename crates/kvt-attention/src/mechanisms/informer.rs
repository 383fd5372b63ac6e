//! Informer's ProbSparse attention: dense attention for the queries that seem to need it.

use burn::module::Module;
use burn::tensor::{DType, Device, IndexingUpdateOp, Int, Tensor, TensorData};
use kvt_ops::{Phase, top_k};
use rand::RngExt;

use super::draws::{Draws, Redraw};
use super::weighing::{Qkv, Weighing};
use crate::{AttentionError, Context, Cost, Mechanism, MechanismConfig, ParamInit, Place};

/// Queries whose sampled keys are gathered at once: a limit, so that memory does not grow with the number of queries.
const BLOCK: usize = 256;

settings! {
    /// ProbSparse attention (Zhou et al., [Informer](https://arxiv.org/abs/2012.07436), AAAI 2021, Algorithm 1): dense
    /// attention for `factor * ceil(ln(queries))` queries, and the mean of all values for the others. The chosen queries are
    /// those whose scores `q.k` on `factor * ceil(ln(keys))` random keys have the largest maximum above their mean, of equal
    /// ones the first. Tokens before the map are always chosen. The choice has no gradient. The authors' code divides the
    /// sum of the sampled scores by the number of all keys, and so chooses other queries: `official_mean` does the same.
    pub struct InformerConfig {
        /// Queries that attend, and keys that are sampled for each, in units of the logarithm of their number.
        pub factor: usize = 5, range(min = 1);
        /// Whether the mean of sampled scores is their sum over the number of all keys, as in the authors' code.
        pub official_mean: bool = false;
        /// When random numbers are drawn again: `step` in training at every step, `never`.
        pub redraw: Redraw = Redraw::default();
        /// Seed of the random numbers of evaluation.
        pub seed: u64 = 0;
        /// Divisor of the scaled scores before the softmax. Beyond its range all scores are the same in 32 bits, or not
        /// finite.
        pub temperature: f64 = 1.0, range(min = 1e-6, max = 1e6);
    }
}

/// The number of tokens taken: `factor * ceil(ln(tokens))`, at least one and at most all of them.
fn taken(factor: usize, tokens: usize) -> usize {
    let logarithm = (tokens.max(1) as f64).ln().ceil() as usize;
    factor.saturating_mul(logarithm).max(1).min(tokens)
}

/// The module of [`InformerConfig`].
#[derive(Module, Debug)]
pub struct Informer {
    #[module(skip)]
    config: InformerConfig,
    #[module(skip)]
    draws: Draws,
}

impl MechanismConfig for InformerConfig {
    const KIND: &'static str = "informer";

    type Mechanism = Informer;

    fn fits(&self, place: &Place) -> Result<(), AttentionError> {
        place.without_bias(Self::KIND)
    }

    fn cost(&self, place: &Place) -> Cost {
        let Place { queries, keys, .. } = *place;
        let sampled = taken(self.factor, keys);
        let chosen = taken(self.factor, queries).max(place.prefix).min(queries);
        // If all queries attend, no choice is needed.
        let choice = if chosen < queries {
            queries * sampled
        } else {
            0
        };
        Cost::of_products((choice + 2 * chosen * keys) * place.dim(), keys)
    }

    fn init(&self, _place: &Place, init: &impl ParamInit) -> Informer {
        Informer {
            config: self.clone(),
            draws: Draws::new(self.seed, init.path(), self.redraw),
        }
    }
}

impl Mechanism for Informer {
    fn attend(&self, q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, context: Context) -> Tensor<4> {
        let ([.., queries, _], [.., keys, _]) = (q.dims(), k.dims());
        let chosen = taken(self.config.factor, queries);
        if chosen.max(context.prefix) >= queries {
            return self.dense(q, k, v, &context);
        }
        let sample = self.sample([queries, keys], context.phase, &q.device());
        self.attend_sampled([q, k, v], &context, &sample, chosen)
    }
}

impl Informer {
    /// The keys on which each query is ranked, `[query, sample]`, drawn with replacement and the same for all images
    /// and heads.
    fn sample(&self, [queries, keys]: [usize; 2], phase: Phase, device: &Device) -> Tensor<2, Int> {
        let size = taken(self.config.factor, keys);
        let mut rng = self.draws.key(phase, "keys").rng();
        let indices: Vec<i64> = (0..queries * size)
            .map(|_| rng.random_range(0..keys as i64))
            .collect();
        Tensor::from_data(TensorData::new(indices, [queries, size]), device)
    }

    /// Attention of the `chosen` queries that stand out on their `sample` of keys, and of the prefix.
    fn attend_sampled(
        &self,
        [q, k, v]: Qkv,
        context: &Context,
        sample: &Tensor<2, Int>,
        chosen: usize,
    ) -> Tensor<4> {
        let dtype = q.dtype();
        let [q, k, v] = [q, k, v].map(|x| x.cast(DType::F32));
        let ([batch, heads, queries, dim], [.., value_dim]) = (q.dims(), v.dims());
        let chosen = chosen.max(context.prefix).min(queries);
        let ranking = self.prominence(q.clone(), k.clone(), sample);
        let ranking = first(ranking, context.prefix);
        let selected = top_k::select(ranking, chosen);
        // `[batch, heads, chosen, 1]`
        let rows = top_k::indices(selected.clone(), chosen).unsqueeze_dim::<4>(3);
        let at = |width| rows.clone().expand([batch, heads, chosen, width]);

        let mean = v.clone().mean_dim(2);
        let attended = self.dense(q.gather(2, at(dim)), k, v, context);
        let shape = [batch, heads, queries, value_dim];
        let selected = selected.unsqueeze_dim::<4>(3).expand(shape);
        let others = mean.expand(shape).mask_fill(selected, 0.0);
        let out = others.scatter(2, at(value_dim), attended, IndexingUpdateOp::Add);
        out.cast(dtype)
    }

    fn dense(&self, q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, context: &Context) -> Tensor<4> {
        Weighing::new(self.config.temperature, context).attend(q, k, v)
    }

    /// How far the best of the sampled scores of a query is above their mean, `[batch, heads, query]`. Without a
    /// gradient: it only ranks.
    fn prominence(&self, q: Tensor<4>, k: Tensor<4>, sample: &Tensor<2, Int>) -> Tensor<3> {
        let (q, k) = (q.detach(), k.detach());
        let ([batch, heads, queries, dim], [.., keys, _]) = (q.dims(), k.dims());
        let [_, size] = sample.dims();
        let official = self.config.official_mean;
        let divisor = if official { keys } else { size };
        let blocks = (0..queries).step_by(BLOCK).map(|start| {
            let count = BLOCK.min(queries - start);
            let indices = sample.clone().narrow(0, start, count);
            let keys = k
                .clone()
                .select(2, indices.reshape([count * size]))
                .reshape([batch, heads, count, size, dim]);
            let q = q.clone().narrow(2, start, count).unsqueeze_dim::<5>(3);
            let scores = (q * keys).sum_dim(4).squeeze_dim::<4>(4);
            let mean = scores.clone().sum_dim(3) / divisor as f64;
            (scores.max_dim(3) - mean).squeeze_dim::<3>(3)
        });
        Tensor::cat(blocks.collect(), 2)
    }
}

/// The ranking `[batch, heads, query]` with the prefix first.
fn first(ranking: Tensor<3>, prefix: usize) -> Tensor<3> {
    if prefix == 0 {
        return ranking;
    }
    let [batch, heads, queries] = ranking.dims();
    let best = Tensor::full([batch, heads, prefix], f32::INFINITY, &ranking.device());
    Tensor::cat(vec![best, ranking.narrow(2, prefix, queries - prefix)], 2)
}

#[cfg(test)]
mod tests;
