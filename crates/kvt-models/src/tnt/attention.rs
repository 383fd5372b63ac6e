//! Attention with one projection for queries and keys, and another for values.

use burn::module::{Module, Param};
use burn::nn::Linear;
use burn::tensor::Tensor;
use kvt_attention::{Mixer, Place};
use kvt_ops::linear_with;

use crate::family::cost::BlockSize;
use crate::family::transformer::Transformer;
use crate::layers::{Init, Pass, SelfAttention};

/// Multi-head self-attention with timm's parameter names: `qk` (dim to 2 dim, in the order `(2, heads, head_dim)`), `v`
/// and `proj`.
#[derive(Module, Debug)]
pub(super) struct Attention {
    qk: Linear,
    v: Linear,
    proj: Linear,
    mixer: Mixer,
    #[module(skip)]
    place: Place,
}

impl Attention {
    /// Of the blocks of a transformer.
    pub(super) fn new(init: &Init<'_>, blocks: &Transformer) -> Self {
        let (BlockSize { dim, qkv_bias, .. }, place) = (blocks.block, blocks.place);
        Self {
            qk: init.linear("qk", dim, 2 * dim, qkv_bias),
            v: init.linear("v", dim, dim, qkv_bias),
            proj: init.linear("proj", dim, dim, true),
            mixer: blocks.attention.init(&place, &init.child("mixer")),
            place,
        }
    }

    /// Queries, keys and values, `[batch, tokens, 3 * dim]`: one product with the weights of both projections, in the
    /// order that fused attention reads without a copy.
    fn qkv(&self, x: Tensor<3>) -> Tensor<3> {
        let weight = Tensor::cat(vec![self.qk.weight.val(), self.v.weight.val()], 1);
        let bias = self.qk.bias.iter().chain(&self.v.bias);
        let bias: Vec<Tensor<1>> = bias.map(Param::val).collect();
        linear_with(x, weight, (!bias.is_empty()).then(|| Tensor::cat(bias, 0)))
    }
}

impl SelfAttention<3> for Attention {
    fn mix(&self, x: Tensor<3>, pass: Pass<'_>) -> Tensor<3> {
        pass.attend(&self.mixer, &self.place, self.qkv(x))
    }

    fn proj(&self) -> &Linear {
        &self.proj
    }
}
