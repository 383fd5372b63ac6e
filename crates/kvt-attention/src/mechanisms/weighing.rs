//! Exact softmax attention inside a mechanism.

use burn::tensor::{Bool, Tensor};

use crate::{Context, Dropout, Score, SoftmaxAttention, attend_unchecked};

/// Queries, keys and values.
pub(super) type Qkv = [Tensor<4>; 3];

/// How products of queries and keys become weights.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weighing {
    /// Multiplies the products.
    pub(super) scale: f64,
    /// Divides them.
    pub(super) temperature: f64,
    /// Dropout of the weights.
    pub(super) dropout: Option<Dropout>,
}

impl Weighing {
    /// With scale and dropout of the context of a call.
    pub(super) fn new(temperature: f64, context: &Context) -> Self {
        Self {
            scale: context.scale,
            temperature,
            dropout: context.dropout,
        }
    }

    /// The same with weights dropped from another stream, for mechanisms that attend several times.
    pub(super) fn named(self, place: &str) -> Self {
        Self {
            dropout: self.dropout.map(|dropout| dropout.named(place)),
            ..self
        }
    }

    /// `softmax(scale / temperature * q k^T) v`, with the shapes of [`attend_unchecked`].
    pub(super) fn attend(&self, q: Tensor<4>, k: Tensor<4>, v: Tensor<4>) -> Tensor<4> {
        self.attend_visible([q, k, v], None)
    }

    /// The same over the keys that are not `hidden`, which broadcasts to `[batch, heads, query, key]` as
    /// the mask of a [`Score`] does.
    pub(super) fn attend_visible(&self, qkv: Qkv, hidden: Option<Tensor<4, Bool>>) -> Tensor<4> {
        let [q, k, v] = qkv;
        let score = Score {
            bias: None,
            mask: hidden,
        };
        let softmax = SoftmaxAttention::at(self.temperature);
        attend_unchecked(q, k, v, score, self.scale, &softmax, self.dropout)
    }

    /// Dense attention for the queries of the prefix, which have no place on the map, and `rest` for the others.
    ///
    /// # Shapes
    /// As for [`attend_unchecked`]; `rest` is given the other queries, and all keys and values.
    pub(super) fn after_prefix(
        self,
        prefix: usize,
        [q, k, v]: Qkv,
        rest: impl FnOnce(Qkv) -> Tensor<4>,
    ) -> Tensor<4> {
        let queries = q.dims()[2];
        let prefix = prefix.min(queries);
        if prefix == 0 {
            return rest([q, k, v]);
        }
        let first = q.clone().narrow(2, 0, prefix);
        let dense = self.named("prefix").attend(first, k.clone(), v.clone());
        if prefix == queries {
            return dense;
        }
        let rest = rest([q.narrow(2, prefix, queries - prefix), k, v]);
        Tensor::cat(vec![dense, rest], 2)
    }
}

/// The first `prefix` tokens of `x`, followed by `map`.
pub(super) fn with_prefix(x: Tensor<4>, prefix: usize, map: Tensor<4>) -> Tensor<4> {
    if prefix == 0 {
        return map;
    }
    Tensor::cat(vec![x.narrow(2, 0, prefix), map], 2)
}
