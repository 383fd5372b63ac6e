//! Blocks in which the class token reads all tokens, and only the class token changes.

use burn::module::Module;
use burn::nn::{LayerNorm, Linear};
use burn::tensor::Tensor;
use kvt_attention::{Mechanism, Mixer, Place};
use kvt_ops::{layer_norm, linear};

use super::NORM_EPSILON;
use super::stage::ClassSize;
use crate::layers::{Activation, Init, Mlp, Pass, project};
use crate::observe::Point;

/// Class attention and an MLP, each after a norm and added to a residual. The original has no drop path here.
#[derive(Module, Debug)]
pub(super) struct ClassBlock {
    norm1: LayerNorm,
    attn: ClassAttention,
    norm2: LayerNorm,
    mlp: Mlp,
}

/// Attention of one query, from the class token, to the class token and all others.
#[derive(Module, Debug)]
struct ClassAttention {
    kv: Linear,
    q: Linear,
    proj: Linear,
    mixer: Mixer,
    #[module(skip)]
    place: Place,
}

impl ClassBlock {
    pub(super) fn new(init: &Init<'_>, size: &ClassSize) -> Self {
        let dim = size.block.dim;
        let mlp = init.child("mlp");
        Self {
            norm1: init.layer_norm(dim, NORM_EPSILON),
            attn: ClassAttention::new(&init.child("attn"), size),
            norm2: init.layer_norm(dim, NORM_EPSILON),
            mlp: Mlp::new(&mlp, dim, size.block.hidden, Activation::Gelu),
        }
    }

    /// The class token after the block.
    ///
    /// # Shapes
    ///
    /// `[batch, 1, dim]` and `[batch, tokens, dim]` to `[batch, 1, dim]`.
    pub(super) fn forward(&self, class: Tensor<3>, tokens: Tensor<3>, pass: Pass<'_>) -> Tensor<3> {
        let Pass { phase, watch, .. } = pass;
        watch.tokens(Point::Input, || class.clone());
        let all = Tensor::cat(vec![class.clone(), tokens], 1);
        let normed = layer_norm(&self.norm1, all, NORM_EPSILON);
        let attn = Pass {
            phase: phase.named("attn"),
            ..pass
        };
        let mixed = self.attn.mix(pass.lower(normed), attn);
        let project_attn = |residual| project(&self.attn.proj, mixed.clone(), residual);
        watch.tokens(Point::Attention, || project_attn(None));
        let class = project_attn(Some(class.into()));

        watch.tokens(Point::Middle, || class.clone());
        let normed = layer_norm(&self.norm2, class.clone(), NORM_EPSILON);
        let normed = pass.lower(normed);
        watch.tokens(Point::Mlp, || self.mlp.forward(normed.clone(), None));
        let class = self.mlp.forward(normed, Some(class.into()));
        watch.tokens(Point::Output, || class.clone());
        class
    }
}

impl ClassAttention {
    fn new(init: &Init<'_>, size: &ClassSize) -> Self {
        let (dim, place, bias) = (size.block.dim, size.place(), size.block.qkv_bias);
        Self {
            kv: init.linear("kv", dim, 2 * dim, bias),
            q: init.linear("q", dim, dim, bias),
            proj: init.linear("proj", dim, dim, true),
            mixer: size.attention.init(&place, &init.child("mixer")),
            place,
        }
    }

    /// # Shapes
    ///
    /// `[batch, 1 + tokens, dim]` to `[batch, 1, dim]`.
    fn mix(&self, x: Tensor<3>, pass: Pass<'_>) -> Tensor<3> {
        let [batch, tokens, dim] = x.dims();
        let Place {
            heads, head_dim, ..
        } = self.place;
        let q = linear(&self.q, x.clone().narrow(1, 0, 1)).reshape([batch, heads, 1, head_dim]);
        let kv = linear(&self.kv, x)
            .reshape([batch, tokens, 2, heads, head_dim])
            .permute([2, 0, 3, 1, 4]);
        let [k, v] = [0, 1].map(|i| kv.clone().narrow(0, i, 1).squeeze_dim::<4>(0));
        let context = self.place.context(pass.phase);
        pass.watch
            .probabilities(|| self.mixer.probabilities(q.clone(), k.clone(), &context));
        self.mixer.attend(q, k, v, context).reshape([batch, 1, dim])
    }
}
