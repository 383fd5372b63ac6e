//! A learned query that gathers the patches: the attention pool of SigLIP (Zhai et al. 2023,
//! [*Sigmoid Loss for Language Image Pre-Training*](https://arxiv.org/abs/2303.15343)), timm's `AttentionPoolLatent`.

use burn::module::{Module, Param};
use burn::nn::{LayerNorm, Linear};
use burn::tensor::Tensor;
use kvt_attention::{
    Law, Macs, ParamInit, Score, SoftmaxAttention, attend_unchecked, merge_heads, split_heads,
};
use kvt_ops::{layer_norm, linear};

use crate::layers::{Activation, Init, Mlp};

/// The sizes of an [`AttentionPool`].
#[derive(Clone, Copy, Debug)]
pub(super) struct PoolSize {
    /// Channels of a token.
    pub dim: usize,
    /// Attention heads.
    pub heads: usize,
    /// Hidden channels of the MLP.
    pub hidden: usize,
    /// Of the MLP.
    pub activation: Activation,
    /// Of the norm.
    pub epsilon: f64,
}

/// Attention of one learned query over all patches, and an MLP. It always reads all of them.
#[derive(Module, Debug)]
pub(super) struct AttentionPool {
    latent: Param<Tensor<3>>,
    q: Linear,
    kv: Linear,
    proj: Linear,
    norm: LayerNorm,
    mlp: Mlp,
    #[module(skip)]
    heads: usize,
    #[module(skip)]
    epsilon: f64,
}

impl PoolSize {
    /// Trainable parameters.
    pub(super) fn params(self) -> usize {
        let Self { dim, hidden, .. } = self;
        let biases = 4 * dim + hidden + dim;
        let (latent, norm) = (dim, 2 * dim);
        4 * dim * dim + 2 * dim * hidden + biases + latent + norm
    }

    /// Operations for the patches of an image.
    pub(super) fn macs(self, patches: usize) -> Macs {
        let Self { dim, hidden, .. } = self;
        let of_query = 2 * dim * dim + 2 * dim * hidden;
        Macs::linear(2 * patches * dim * dim + of_query) + Macs::attention(2 * patches * dim)
    }
}

impl AttentionPool {
    /// With the original's initialisation.
    pub(super) fn new(init: &Init<'_>, size: PoolSize) -> Self {
        let PoolSize { dim, hidden, .. } = size;
        let std = (dim as f32).powf(-0.5);
        Self {
            latent: init.param("latent", [1, 1, dim], Law::Normal { std }),
            q: init.linear("q", dim, dim, true),
            kv: init.linear("kv", dim, 2 * dim, true),
            proj: init.linear("proj", dim, dim, true),
            norm: init.layer_norm(dim, size.epsilon),
            mlp: Mlp::new(&init.child("mlp"), dim, hidden, size.activation),
            heads: size.heads,
            epsilon: size.epsilon,
        }
    }

    /// # Shapes
    ///
    /// `[batch, patches, dim]` to `[batch, dim]`.
    pub(super) fn forward(&self, patches: Tensor<3>) -> Tensor<2> {
        let [batch, _, dim] = patches.dims();
        let [q] = split_heads(linear(&self.q, self.latent.val()), self.heads);
        let [k, v] = split_heads(linear(&self.kv, patches), self.heads);
        let scale = ((dim / self.heads) as f64).powf(-0.5);
        let (q, dense) = (q.repeat_dim(0, batch), SoftmaxAttention::dense());
        let mixed = attend_unchecked(q, k, v, Score::default(), scale, &dense, None);
        let x = linear(&self.proj, merge_heads(mixed));
        let normed = layer_norm(&self.norm, x.clone(), self.epsilon);
        self.mlp
            .forward(normed, Some(x.into()), None)
            .squeeze_dim(1)
    }
}
