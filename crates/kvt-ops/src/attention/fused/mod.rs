//! Attention in one operation: on the CPU block by block, elsewhere composed.

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::{Autodiff, AutodiffBackend, backend_extension, tensor::FloatTensor};

use super::added::Added;
use super::{AttentionSettings, composed, packed};
use crate::autodiff::{record, split};
use crate::knn_softmax::KnnSoftmaxOps;

pub(super) mod blocks;
pub(super) mod cpu;

/// Attention on a backend; the default implementations are composed.
///
/// The forward methods return the output and a tensor for the backward method, whose content is up to the backend.
#[backend_extension(Cube: cfg(feature = "cube"), Flex, Capture: cfg(feature = "export"), Autodiff, Fusion: cfg(feature = "cube"))]
pub(crate) trait FusedAttentionOps: KnnSoftmaxOps {
    /// `softmax(top_k(scale q k^T)) v` of q, k, v `[batch, heads, tokens, head_dim]`.
    #[fusion(default)]
    fn fused_attention(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        settings: AttentionSettings,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let limit = composed::limit::<Self>(&q);
        composed::forward::<Self>([q, k, v], &Added::nothing(), settings, limit)
    }

    /// The gradients of q, k and v from the gradient of the output.
    #[fusion(default)]
    fn fused_attention_backward(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        saved: FloatTensor<Self>,
        d_out: FloatTensor<Self>,
        settings: AttentionSettings,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let limit = composed::limit::<Self>(&q);
        let inputs = [q, k, v];
        let added = Added::nothing();
        let (grads, _) = composed::backward::<Self>(inputs, &added, saved, d_out, settings, limit);
        grads.into()
    }

    /// [`Self::fused_attention`] among the tokens, from the packed projection `[batch, tokens, 3 * dim]` to
    /// `[batch, tokens, dim]`.
    #[fusion(default)]
    fn fused_self_attention(
        qkv: FloatTensor<Self>,
        heads: usize,
        settings: AttentionSettings,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let [q, k, v] = packed::split::<Self>(&qkv, heads);
        let (out, saved) = Self::fused_attention(q, k, v, settings);
        (packed::merge_heads::<Self>(out), saved)
    }

    /// The gradient of `qkv` from the gradient of the output.
    #[fusion(default)]
    fn fused_self_attention_backward(
        qkv: FloatTensor<Self>,
        saved: FloatTensor<Self>,
        d_out: FloatTensor<Self>,
        heads: usize,
        settings: AttentionSettings,
    ) -> FloatTensor<Self> {
        let [q, k, v] = packed::split::<Self>(&qkv, heads);
        let d_out = packed::split_heads::<Self>(d_out, heads);
        let (q, k, v) = Self::fused_attention_backward(q, k, v, saved, d_out, settings);
        packed::join::<Self>([q, k, v])
    }
}

#[cfg(feature = "cube")]
impl FusedAttentionOps for burn_cubecl::CubeBackend {}

record_backward!(FusedAttentionOps {
    fused_attention,
    fused_attention_backward,
    fused_self_attention,
    fused_self_attention_backward,
});
