//! Clustered attention, plain and improved: queries with similar hashes share their attention.

use burn::module::Module;
use burn::tensor::{Bool, Tensor};

use super::draws::Draws;
use super::weighing::{Qkv, Weighing};
use crate::{Context, Mechanism};

mod assign;
mod attend;
mod config;

use assign::{assign, draw_planes, draw_start};
use attend::{clustered, improved};

pub use config::{ClusteredConfig, ClusteredImprovedConfig};

/// The module of [`ClusteredConfig`] and [`ClusteredImprovedConfig`].
#[derive(Module, Debug)]
pub struct Clustered {
    #[module(skip)]
    config: ClusteredConfig,
    /// Keys with exact weights; `None` for plain clustered attention.
    #[module(skip)]
    kept: Option<usize>,
    #[module(skip)]
    draws: Draws,
}

impl Mechanism for Clustered {
    fn attend(&self, q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, context: Context) -> Tensor<4> {
        let weighing = self.weighing(&context);
        weighing.after_prefix(context.prefix, [q, k, v], |[q, k, v]| {
            let ([.., queries, dim], device) = (q.dims(), q.device());
            let key = |purpose| self.draws.key(context.phase, purpose);
            let planes = draw_planes(key("planes"), self.config.bits, dim, &device);
            let start = draw_start(key("start"), self.config.clusters, queries, &device);
            let groups = assign(q.clone(), planes, start, self.config.iterations);
            self.attend_grouped([q, k, v], groups, &weighing)
        })
    }
}

impl Clustered {
    fn weighing(&self, context: &Context) -> Weighing {
        Weighing::new(self.config.temperature, context)
    }

    /// Attention for given clusters, `[batch, heads, query, cluster]`.
    fn attend_grouped(&self, qkv: Qkv, groups: Tensor<4, Bool>, weighing: &Weighing) -> Tensor<4> {
        let keys = qkv[1].dims()[2];
        match self.kept {
            None => clustered(qkv, groups, weighing),
            // If all keys have exact weights, the clusters do not matter.
            Some(kept) if kept >= keys => weighing.attend_visible(qkv, None),
            Some(kept) => improved(qkv, groups, kept, weighing),
        }
    }
}

#[cfg(test)]
mod tests;
