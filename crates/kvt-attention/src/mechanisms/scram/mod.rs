//! SCRAM: softmax over the keys that PatchMatch finds.

use burn::module::Module;
use burn::tensor::{Bool, Int, Tensor, TensorData};
use rayon::prelude::*;

use super::draws::Draws;
use super::weighing::{Qkv, Weighing};
use crate::softmax::identity;
use crate::{Context, Mechanism};

mod config;
mod estimators;
mod fields;
mod patchmatch;

pub use config::{ScramConfig, ScramSearch};
pub use estimators::{Chains, Estimator, Proposal, Samples};
pub use fields::{Fields, Tokens};
pub use patchmatch::PatchMatch;

/// The module of [`ScramConfig`].
#[derive(Module, Debug)]
pub struct Scram {
    #[module(skip)]
    config: ScramConfig,
    #[module(skip)]
    draws: Draws,
}

impl Mechanism for Scram {
    /// Without a map in the context, the tokens form one column.
    fn attend(&self, q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, context: Context) -> Tensor<4> {
        let fields = self.search(&q, &k, &context);
        self.attend_to([q, k, v], &fields, &context)
    }

    fn probabilities(&self, q: Tensor<4>, k: Tensor<4>, context: &Context) -> Option<Tensor<4>> {
        let values = identity(&k);
        let context = Context {
            dropout: None,
            ..context.clone()
        };
        Some(self.attend(q, k, values, context))
    }
}

impl Scram {
    /// The matches of all queries of the map, over images and heads, without a gradient.
    fn search(&self, q: &Tensor<4>, k: &Tensor<4>, context: &Context) -> Fields {
        let [_, _, tokens, head_dim] = q.dims();
        let tokens = tokens - context.prefix;
        let host = |x: &Tensor<4>| {
            let x = x.clone().detach().narrow(2, context.prefix, tokens);
            x.into_data().iter::<f32>().collect::<Vec<f32>>()
        };
        let (queries, keys) = (host(q), host(k));
        let grid = context.grid.unwrap_or([tokens, 1]);
        assert!(
            k.dims() == q.dims() && grid[0] * grid[1] == tokens,
            "scram: q {:?} and k {:?} with {} tokens before a map of {grid:?} have mismatched shapes",
            q.dims(),
            k.dims(),
            context.prefix,
        );
        let tokens = Tokens::of(&queries, &keys, head_dim, grid);
        let key = self.draws.key(context.phase, "search");
        self.config.patchmatch().search(&tokens, key)
    }

    /// Attention to the keys around matches, and to the tokens before the map.
    fn attend_to(&self, qkv: Qkv, fields: &Fields, context: &Context) -> Tensor<4> {
        let prefix = context.prefix;
        let weighing = Weighing::new(self.config.temperature, context);
        weighing.after_prefix(prefix, qkv, |[q, k, v]| {
            let ([batch, heads, queries, dim], [.., keys, value_dim]) = (q.dims(), v.dims());
            let slots = prefix + self.config.slots(queries);
            let (indices, mask) = self.candidates(fields, batch * heads, keys, prefix, slots);
            let (indices, mask) = on_device(indices, mask, slots, &q);
            // Every query becomes an image, since each has its own keys.
            let rows = batch * heads * queries;
            let gathered = |x: Tensor<4>, dim: usize| {
                let x = x.reshape([batch * heads * keys, dim]);
                x.select(0, indices.clone()).reshape([rows, 1, slots, dim])
            };
            let q = q.reshape([rows, 1, 1, dim]);
            let near = [q, gathered(k, dim), gathered(v, value_dim)];
            let out = weighing.attend_visible(near, Some(mask));
            out.reshape([batch, heads, queries, value_dim])
        })
    }

    /// For every query, `slots` indices of keys, counted over all heads, and which of them are padding.
    fn candidates(
        &self,
        fields: &Fields,
        heads: usize,
        keys: usize,
        prefix: usize,
        slots: usize,
    ) -> (Vec<i32>, Vec<bool>) {
        let queries = keys - prefix;
        let rows = heads * queries;
        let (mut indices, mut hidden) = (vec![0; rows * slots], vec![true; rows * slots]);
        let filled = indices
            .par_chunks_mut(slots)
            .zip(hidden.par_chunks_mut(slots));
        filled
            .enumerate()
            .for_each_init(Vec::new, |near, (row, (indices, hidden))| {
                let first = row / queries * keys;
                fields.collect(row, self.config.radius, near);
                let on_the_map = near.iter().map(|key| prefix + key);
                indices.fill(first as i32);
                for ((index, hidden), key) in indices
                    .iter_mut()
                    .zip(hidden)
                    .zip((0..prefix).chain(on_the_map))
                {
                    *index = (first + key) as i32;
                    *hidden = false;
                }
            });
        (indices, hidden)
    }
}

/// The indices of keys as one list, and the mask `[query, 1, 1, slots]`.
fn on_device(
    indices: Vec<i32>,
    hidden: Vec<bool>,
    slots: usize,
    like: &Tensor<4>,
) -> (Tensor<1, Int>, Tensor<4, Bool>) {
    let (len, device) = (indices.len(), like.device());
    let indices = Tensor::from_data(TensorData::new(indices, [len]), &device);
    let mask = TensorData::new(hidden, [len / slots, 1, 1, slots]);
    (indices, Tensor::from_data(mask, &device))
}

#[cfg(test)]
mod estimator_tests;
#[cfg(test)]
mod tests;
