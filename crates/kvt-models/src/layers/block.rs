//! The pre-norm transformer block of DeiT and PiT.

use burn::module::Module;
use burn::nn::LayerNorm;
use burn::tensor::Tensor;
use kvt_attention::{Attention, MultiHeadAttention, Phase, layer_norm};

use super::{Activation, Init, Mlp, drop_path, drops_paths};
use crate::summary::BlockSize;

/// Self-attention and an MLP, each behind a layer norm and around a residual.
#[derive(Module, Debug)]
pub(crate) struct Block {
    norm1: LayerNorm,
    attn: MultiHeadAttention,
    norm2: LayerNorm,
    mlp: Mlp,
    #[module(skip)]
    drop_path: f64,
    #[module(skip)]
    norm_epsilon: f64,
}

/// What the blocks of a stage have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockSettings {
    /// Channels.
    pub size: BlockSize,
    /// Attention heads.
    pub num_heads: usize,
    /// How a query attends.
    pub attention: Attention,
    /// Dropout of the attention weights.
    pub attn_drop: f64,
    /// Epsilon of the layer norms.
    pub norm_epsilon: f64,
}

impl Block {
    /// A block whose branches are dropped at the rate `drop_path`.
    pub(crate) fn new(init: &Init<'_>, settings: &BlockSettings, drop_path: f64) -> Self {
        let BlockSettings {
            size,
            num_heads,
            attention,
            attn_drop,
            norm_epsilon,
        } = *settings;
        let attn = init.child("attn");
        Self {
            norm1: init.layer_norm(size.dim, norm_epsilon),
            attn: MultiHeadAttention::new(
                attn.linear("qkv", size.dim, 3 * size.dim, size.qkv_bias),
                attn.linear("proj", size.dim, size.dim, true),
                num_heads,
                attention,
                attn_drop,
            ),
            norm2: init.layer_norm(size.dim, norm_epsilon),
            mlp: Mlp::new(&init.child("mlp"), size.dim, size.hidden, Activation::Gelu),
            drop_path,
            norm_epsilon,
        }
    }

    /// # Shapes
    ///
    /// `[batch, tokens, dim]` to the same.
    pub(crate) fn forward(&self, x: Tensor<3>, phase: Phase) -> Tensor<3> {
        let (rate, attn) = (self.drop_path, phase.named("attn"));
        let normed = layer_norm(&self.norm1, x.clone(), self.norm_epsilon);
        // What is not dropped is added while it is made.
        let x = if drops_paths(rate, phase) {
            x + drop_path(
                self.attn.forward(normed, attn),
                rate,
                phase.named("drop_path1"),
            )
        } else {
            self.attn.forward_add(normed, x, attn)
        };
        let normed = layer_norm(&self.norm2, x.clone(), self.norm_epsilon);
        self.mlp
            .forward_add(normed, x, rate, phase.named("drop_path2"))
    }
}
