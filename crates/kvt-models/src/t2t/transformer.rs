//! The token transformer: a block whose input is wider than its output.

use burn::module::Module;
use burn::nn::{LayerNorm, Linear};
use burn::tensor::Tensor;
use kvt_attention::{AttentionConfig, Context, Mechanism, Mixer, Place};
use kvt_ops::{linear, widened};

use super::NORM_EPSILON;
use super::token::TokenSize;
use crate::layers::{Activation, Init, Mlp, Pass, add_branch, project};
use crate::observe::Point;

/// Attention with one head, and an MLP. Input and output differ in width, so the residual stream begins with the
/// values instead of the input.
#[derive(Module, Debug)]
pub(super) struct TokenTransformer {
    norm1: LayerNorm,
    attn: TokenAttention,
    norm2: LayerNorm,
    mlp: Mlp,
}

/// The modules of the attention, with the original's parameter names.
#[derive(Module, Debug)]
struct TokenAttention {
    qkv: Linear,
    proj: Linear,
    mixer: Mixer,
    #[module(skip)]
    place: Place,
}

impl TokenTransformer {
    pub(super) fn new(init: &Init<'_>, size: &TokenSize, attention: &AttentionConfig) -> Self {
        let TokenSize { input, dim, .. } = *size;
        let attn = init.child("attn");
        let place = size.place();
        Self {
            norm1: init.layer_norm(input, NORM_EPSILON),
            attn: TokenAttention {
                qkv: attn.linear("qkv", input, 3 * dim, false),
                proj: attn.linear("proj", dim, dim, true),
                mixer: attention.init(&place, &attn.child("mixer")),
                place,
            },
            norm2: init.layer_norm(dim, NORM_EPSILON),
            mlp: Mlp::new(&init.child("mlp"), dim, dim, Activation::Gelu),
        }
    }

    /// # Shapes
    ///
    /// `[batch, tokens, input]` to `[batch, tokens, dim]`.
    pub(super) fn forward(&self, x: Tensor<3>, pass: Pass<'_>) -> Tensor<3> {
        let Pass { phase, watch, .. } = pass;
        let TokenAttention { mixer, place, .. } = &self.attn;
        let (input, dim) = (x.dims()[2], place.dim());
        let normed = pass.normed(&self.norm1, x, NORM_EPSILON);
        let qkv = linear(&self.attn.qkv, normed);
        let part = |i: usize| qkv.clone().narrow(2, i * dim, dim);
        let stream = widened(part(2));
        watch.tokens(Point::Input, || stream.clone());
        // The original scales by the width of the input.
        let context = Context {
            scale: (input as f64).powf(-0.5),
            grid: Some(pass.grid),
            ..place.context(phase.named("attn"))
        };
        watch.probabilities(|| {
            let [q, k] = [0, 1].map(|i| part(i).unsqueeze_dim::<4>(1));
            mixer.probabilities(q, k, &context)
        });
        let mixed = mixer.attend_packed(qkv, place.heads, context);
        // Without drop path.
        let proj = |mixed, residual| project(&self.attn.proj, mixed, residual);
        let x = add_branch(stream, mixed, Point::Attention, 0.0, pass, proj);

        let normed = pass.normed(&self.norm2, x.clone(), NORM_EPSILON);
        let mlp = |normed, residual| self.mlp.forward(normed, residual, None);
        add_branch(x, normed, Point::Mlp, 0.0, pass, mlp)
    }
}
