//! Attention of blocks in which the class token reads all tokens, and only the class token changes.

use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::Tensor;
use kvt_attention::{Mechanism, Mixer, Place, merge_heads, split_heads};
use kvt_ops::linear;

use crate::family::cost::BlockSize;
use crate::family::transformer::Transformer;
use crate::layers::{Init, Pass, SelfAttention};

/// Attention of one query, from the class token, to the class token and all others.
#[derive(Module, Debug)]
pub(super) struct ClassAttention {
    kv: Linear,
    q: Linear,
    proj: Linear,
    mixer: Mixer,
    #[module(skip)]
    place: Place,
}

impl ClassAttention {
    pub(super) fn new(init: &Init<'_>, blocks: &Transformer) -> Self {
        let (BlockSize { dim, qkv_bias, .. }, place) = (blocks.block, blocks.place);
        Self {
            kv: init.linear("kv", dim, 2 * dim, qkv_bias),
            q: init.linear("q", dim, dim, qkv_bias),
            proj: init.linear("proj", dim, dim, true),
            mixer: blocks.attention.init(&place, &init.child("mixer")),
            place,
        }
    }
}

impl SelfAttention<3> for ClassAttention {
    /// # Shapes
    ///
    /// `[batch, 1 + tokens, dim]` to `[batch, 1, dim]`.
    fn mix(&self, x: Tensor<3>, pass: Pass<'_>) -> Tensor<3> {
        let heads = self.place.heads;
        let [q] = split_heads(linear(&self.q, x.clone().narrow(1, 0, 1)), heads);
        let [k, v] = split_heads(linear(&self.kv, x), heads);
        let context = self.place.context(pass.phase);
        pass.watch
            .probabilities(|| self.mixer.probabilities(q.clone(), k.clone(), &context));
        merge_heads(self.mixer.attend(q, k, v, context))
    }

    fn proj(&self) -> &Linear {
        &self.proj
    }
}
