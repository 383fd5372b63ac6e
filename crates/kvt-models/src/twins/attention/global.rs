//! Attention of all tokens to a few tokens that represent the whole map.

use burn::module::Module;
use burn::nn::{LayerNorm, Linear};
use burn::tensor::Tensor;
use kvt_attention::{Context, Mechanism, Mixer, Place, merge_heads, split_heads};
use kvt_ops::{layer_norm, linear};

use super::super::network::EMBED_EPSILON;
use super::super::stage::StageSize;
use crate::family::cost::BlockSize;
use crate::layers::{Conv2d, Init, Pass, SelfAttention, convolve_tokens};

/// Global sub-sampled attention.
#[derive(Module, Debug)]
pub(in crate::twins) struct GlobalAttention {
    q: Linear,
    kv: Linear,
    proj: Linear,
    /// Makes one token of each square of tokens.
    sr: Option<Conv2d>,
    norm: Option<LayerNorm>,
    mixer: Mixer,
    #[module(skip)]
    place: Place,
}

impl GlobalAttention {
    pub(super) fn new(init: &Init<'_>, size: &StageSize) -> Self {
        let BlockSize { dim, qkv_bias, .. } = size.blocks.block;
        let place = size.global();
        let reduction = size.reduction();
        Self {
            q: init.linear("q", dim, dim, qkv_bias),
            kv: init.linear("kv", dim, 2 * dim, qkv_bias),
            proj: init.linear("proj", dim, dim, true),
            sr: reduction.map(|settings| init.conv_fan_out_groups("sr", settings)),
            norm: reduction.map(|_| init.layer_norm(dim, EMBED_EPSILON)),
            mixer: size.blocks.attention.init(&place, &init.child("mixer")),
            place,
        }
    }

    /// The tokens from which keys and values are made.
    ///
    /// # Shapes
    ///
    /// `[batch, tokens, dim]` to `[batch, keys, dim]`.
    fn sub_sampled(&self, x: Tensor<3>, grid: [usize; 2]) -> Tensor<3> {
        let x = match &self.sr {
            Some(sr) => convolve_tokens(sr, x, grid),
            None => x,
        };
        match &self.norm {
            Some(norm) => layer_norm(norm, x, EMBED_EPSILON),
            None => x,
        }
    }
}

impl SelfAttention<3> for GlobalAttention {
    fn mix(&self, x: Tensor<3>, pass: Pass<'_>) -> Tensor<3> {
        let heads = self.place.heads;
        let [q] = split_heads(linear(&self.q, x.clone()), heads);
        let few = pass.lower(self.sub_sampled(x, pass.grid));
        let kv = linear(&self.kv, few);
        let [k, v] = split_heads(kv, heads);
        let context = Context {
            grid: Some(pass.grid),
            ..self.place.context(pass.phase)
        };
        pass.watch
            .probabilities(|| self.mixer.probabilities(q.clone(), k.clone(), &context));
        merge_heads(self.mixer.attend(q, k, v, context))
    }

    fn proj(&self) -> &Linear {
        &self.proj
    }
}
