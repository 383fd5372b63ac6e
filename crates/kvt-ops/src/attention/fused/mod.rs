//! Attention in one operation: on the CPU block by block, elsewhere composed, or in the kernels of `flash`.

use burn::backend::autodiff::{checkpoint::strategy::CheckpointStrategy, ops::NodeGuard};
use burn::backend::{Autodiff, AutodiffBackend, backend_extension, tensor::FloatTensor};

use super::added::Added;
use super::{AttentionSettings, Packing, composed, packed};
use crate::autodiff::{record_asked, split, split_optional};
use crate::knn_softmax::KnnSoftmaxOps;

pub(super) mod blocks;
pub(super) mod cpu;

/// Attention on a backend; the default implementations are composed, or, if the settings ask for them and nothing is added to the
/// scores, the flash attention.
///
/// The forward methods return the output and a tensor for the backward method, whose content is up to the backend.
#[backend_extension(Cube: cfg(feature = "cube"), Flex, Capture: cfg(feature = "export"), Autodiff, Fusion: cfg(feature = "cube"))]
pub(crate) trait AttentionOps: KnnSoftmaxOps {
    /// `softmax(top_k(scale q k^T + bias)) v` of q, k, v `[batch, heads, tokens, head_dim]`, without hidden keys.
    #[fusion(default)]
    fn fused_attention(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        #[extension_type] added: Added<Self>,
        settings: AttentionSettings,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        if settings.flash && added.is_nothing() {
            return Self::flash_attention(q, k, v, settings);
        }
        let limit = composed::limit::<Self>(&q);
        composed::forward::<Self>([q, k, v], &added, settings, limit)
    }

    /// The gradients of q, k, v and, if there is one, the bias from `[saved, d_out]`, where `d_out` is the gradient of the output.
    #[fusion(default)]
    fn fused_attention_backward(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        #[extension_type] added: Added<Self>,
        saved: FloatTensor<Self>,
        d_out: FloatTensor<Self>,
        settings: AttentionSettings,
    ) -> (
        FloatTensor<Self>,
        FloatTensor<Self>,
        FloatTensor<Self>,
        Option<FloatTensor<Self>>,
    ) {
        if settings.flash && added.is_nothing() {
            let (q, k, v) = Self::flash_attention_backward(q, k, v, saved, d_out, settings);
            return (q, k, v, None);
        }
        let limit = composed::limit::<Self>(&q);
        let ([q, k, v], bias) =
            composed::backward::<Self>([q, k, v], &added, saved, d_out, settings, limit);
        (q, k, v, bias)
    }

    /// [`Self::fused_attention`] among the tokens of each window, from the packed projection `[batch * windows, tokens, 3 * dim]`
    /// to `[batch * windows, tokens, dim]`.
    #[fusion(default)]
    fn fused_self_attention(
        qkv: FloatTensor<Self>,
        #[extension_type] added: Added<Self>,
        packing: Packing,
        settings: AttentionSettings,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let [q, k, v] = packed::split::<Self>(&qkv, packing);
        let (out, saved) = Self::fused_attention(q, k, v, added, settings);
        (packed::merge_heads::<Self>(out, packing), saved)
    }

    /// The gradients of `qkv` and, if there is one, the bias from `[saved, d_out]`, where `d_out` is the gradient of the output.
    #[fusion(default)]
    fn fused_self_attention_backward(
        qkv: FloatTensor<Self>,
        #[extension_type] added: Added<Self>,
        saved: FloatTensor<Self>,
        d_out: FloatTensor<Self>,
        packing: Packing,
        settings: AttentionSettings,
    ) -> (FloatTensor<Self>, Option<FloatTensor<Self>>) {
        let [q, k, v] = packed::split::<Self>(&qkv, packing);
        let d_out = packed::split_heads::<Self>(d_out, packing);
        let (q, k, v, bias) =
            Self::fused_attention_backward(q, k, v, added, saved, d_out, settings);
        (packed::join::<Self>([q, k, v], packing), bias)
    }

    /// [`Self::fused_attention`] in kernels that do not write scores to memory; without such kernels it is composed. A fused
    /// backend saves `flash::gpu::saved::words` per row, whether or not its device can run the kernels.
    #[fusion(meta = super::flash::gpu::saved::specs)]
    fn flash_attention(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        settings: AttentionSettings,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        Self::fused_attention(q, k, v, Added::Nothing, settings.composed())
    }

    /// The gradients of q, k and v from the gradient of the output.
    #[fusion(meta = |q, k, v, _saved, _d_out, _settings| (q.clone(), k.clone(), v.clone()))]
    fn flash_attention_backward(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        saved: FloatTensor<Self>,
        d_out: FloatTensor<Self>,
        settings: AttentionSettings,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let settings = settings.composed();
        let (q, k, v, _) =
            Self::fused_attention_backward(q, k, v, Added::Nothing, saved, d_out, settings);
        (q, k, v)
    }
}

impl<B: AttentionOps, C: CheckpointStrategy> AttentionOps for Autodiff<B, C> {
    fn fused_attention(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        added: Added<Self>,
        settings: AttentionSettings,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let ([of_q, of_k, of_v], inputs) = split([q, k, v]);
        let [q, k, v] = inputs.clone();
        let (of_bias, added) = split_bias(added, &q);
        let (out, saved) = B::fused_attention(q, k, v, added.clone(), settings);
        let nodes = [of_q, of_k, of_v, of_bias];
        let state = (inputs, added, saved.clone(), settings);
        let out = record_asked::<B, C, _, _>(nodes, out, state, |state, d_out, _| {
            let ([q, k, v], added, saved, settings) = state;
            let (q, k, v, bias) =
                B::fused_attention_backward(q, k, v, added, saved, d_out, settings);
            [Some(q), Some(k), Some(v), bias]
        });
        (out, Self::from_inner(saved))
    }

    fn fused_self_attention(
        qkv: FloatTensor<Self>,
        added: Added<Self>,
        packing: Packing,
        settings: AttentionSettings,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let ([of_qkv], [qkv]) = split([qkv]);
        let (of_bias, added) = split_bias(added, &qkv);
        let (out, saved) = B::fused_self_attention(qkv.clone(), added.clone(), packing, settings);
        let state = (qkv, added, saved.clone(), packing, settings);
        let out = record_asked::<B, C, _, _>([of_qkv, of_bias], out, state, |state, d_out, _| {
            let (qkv, added, saved, packing, settings) = state;
            let (qkv, bias) =
                B::fused_self_attention_backward(qkv, added, saved, d_out, packing, settings);
            [Some(qkv), bias]
        });
        (out, Self::from_inner(saved))
    }
}

/// The node of the bias, a constant without one, and what is added on the inner backend. `any` is a tensor.
fn split_bias<B: AttentionOps, C: CheckpointStrategy>(
    added: Added<Autodiff<B, C>>,
    any: &FloatTensor<B>,
) -> (NodeGuard, Added<B>) {
    let (bias, mask) = added.into_parts();
    let (node, bias) = split_optional::<B>(bias, any);
    (node, Added::new(bias, mask))
}
