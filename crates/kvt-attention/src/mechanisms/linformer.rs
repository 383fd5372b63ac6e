//! Linformer: attention over learned sums of keys and of values.

use burn::module::{Module, Param};
use burn::tensor::{DType, Tensor};

use super::weighing::Weighing;
use crate::{
    AttentionError, Context, Cost, Law, Macs, Mechanism, MechanismConfig, ParamInit, Place,
    SoftmaxAttention,
};

settings! {
    /// Attention over `rank` learned sums of the keys and of the values, `softmax(scale / temperature * q (E^T k)^T) F^T v` with
    /// `E` and `F` of the shape `[tokens, rank]` ([Linformer: Self-Attention with Linear Complexity,
    /// 2020](https://arxiv.org/abs/2006.04768), equation 7). The number of tokens is fixed: weights fit one image size. All heads
    /// share `E` and `F`, which apply to the projected keys and values; in the authors' code they are before these
    /// projections, which differs by the bias of the projections only.
    #[derive(Copy)]
    pub struct LinformerConfig {
        /// Learned sums of keys, which a query attends to; no more than there are tokens.
        pub rank: usize = 256, range(min = 1, max = 65536);
        /// Whether keys and values are compressed by the same weights.
        pub shared: bool = false;
        /// Divisor of the scaled scores before the softmax. Beyond its range all scores are the same in 32 bits, or not
        /// finite.
        pub temperature: f64 = 1.0, range(min = 1e-6, max = 1e6);
    }
}

/// The module of [`LinformerConfig`].
#[derive(Module, Debug)]
pub struct Linformer {
    /// `[tokens, rank]`; also for the values if they share it.
    proj_k: Param<Tensor<2>>,
    /// `[tokens, rank]`.
    proj_v: Option<Param<Tensor<2>>>,
    softmax: SoftmaxAttention,
}

impl MechanismConfig for LinformerConfig {
    const KIND: &'static str = "linformer";

    const FIXES_KEYS: bool = true;

    type Mechanism = Linformer;

    fn fits(&self, place: &Place) -> Result<(), AttentionError> {
        place.without_bias(Self::KIND)?;
        let (rank, keys) = (self.rank, place.keys);
        let (reason, help) = if keys == 0 {
            let reason = "has weights for every key".to_owned();
            (reason, "say how many tokens there are".to_owned())
        } else if rank > keys {
            let reason = format!("has `rank` {rank}, which is more than the {keys} tokens");
            (reason, format!("set `rank` to {keys} or less"))
        } else {
            return Ok(());
        };
        Err(AttentionError::misplaced(Self::KIND, reason, help))
    }

    fn cost(&self, place: &Place) -> Cost {
        let weights = place.keys * self.rank;
        let sums = 2 * weights * place.dim();
        let products = 2 * place.queries * self.rank * place.dim();
        Cost {
            params: if self.shared { weights } else { 2 * weights },
            macs: Macs::attention(sums + products),
            kept: place.keys,
        }
    }

    fn init(&self, place: &Place, init: &impl ParamInit) -> Linformer {
        let (keys, rank) = (place.keys, self.rank);
        // The authors' `xavier_uniform_` with a gain of 1 / sqrt(2).
        let bound = (3.0 / (keys + rank) as f32).sqrt();
        let param = |name| init.param(name, [keys, rank], Law::Uniform { bound });
        Linformer {
            proj_k: param("proj_k"),
            proj_v: (!self.shared).then(|| param("proj_v")),
            softmax: SoftmaxAttention::at(self.temperature),
        }
    }
}

impl Mechanism for Linformer {
    fn attend(&self, q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, context: Context) -> Tensor<4> {
        let k = sums(&self.proj_k, k);
        let v = sums(self.proj_v.as_ref().unwrap_or(&self.proj_k), v);
        Weighing::new(self.softmax.temperature, &context).attend(q, k, v)
    }
}

/// `weight^T x`, in f32: `[batch, heads, tokens, dim]` to `[batch, heads, rank, dim]`.
fn sums(weight: &Param<Tensor<2>>, x: Tensor<4>) -> Tensor<4> {
    let ([batch, heads, tokens, dim], dtype) = (x.dims(), x.dtype());
    let (x, weight) = (x.cast(DType::F32), weight.val().cast(DType::F32));
    let [_, rank] = weight.dims();
    // One matrix product for the whole batch, so that the gradient of the weight is one, too.
    let columns = x
        .permute([2, 0, 1, 3])
        .reshape([tokens, batch * heads * dim]);
    let sums = weight.transpose().matmul(columns);
    sums.reshape([rank, batch, heads, dim])
        .permute([1, 2, 0, 3])
        .cast(dtype)
}

#[cfg(test)]
mod tests;
