//! Attention with a bias or a mask in one operation: on the CPU block by block, elsewhere composed.

#![expect(
    clippy::too_many_arguments,
    reason = "an operation of a backend takes its tensors one by one"
)]

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::{
    Autodiff, AutodiffBackend, Backend, backend_extension,
    tensor::{BoolTensor, FloatTensor},
};

use super::{AttentionSettings, composed};
use crate::autodiff::{record, split};
use crate::knn_softmax::KnnSoftmaxOps;

mod cpu;
mod terms;

#[cfg(test)]
mod tests;

/// Whether bias and mask are given. An operation takes both; a missing one is a placeholder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given {
    pub(crate) bias: bool,
    pub(crate) mask: bool,
}

/// What is added to the scores `[batch, heads, query, key]` before the selection. Both are broadcast.
///
/// Windows can be folded into the heads, window by window. Then the bias can have the heads of one window, which are
/// repeated for every window, and the mask one matrix for each window.
#[derive(Clone)]
pub(super) struct Added<B: Backend> {
    bias: Option<FloatTensor<B>>,
    /// `true` where a key is hidden.
    mask: Option<BoolTensor<B>>,
}

/// Attention with a bias or a mask on a backend; the defaults are composed.
///
/// The forward method returns the output and a tensor for the backward method, whose content is up to the backend.
#[backend_extension(Cube: cfg(feature = "cube"), Flex, Capture: cfg(feature = "export"), Autodiff, Fusion: cfg(feature = "cube"))]
pub(crate) trait AddedAttentionOps: KnnSoftmaxOps {
    /// `softmax(top_k(scale q k^T + bias)) v` of q, k, v `[batch, heads, tokens, head_dim]`, without hidden keys.
    #[fusion(default)]
    fn added_attention(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        mask: BoolTensor<Self>,
        given: Given,
        settings: AttentionSettings,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let added = Added::<Self>::new(bias, mask, given);
        let limit = composed::limit::<Self>(&q);
        composed::forward::<Self>([q, k, v], &added, settings, limit)
    }

    /// The gradients of q, k, v and the bias from `[saved, d_out]`, where `d_out` is the gradient of the output.
    #[fusion(default)]
    fn added_attention_backward(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        mask: BoolTensor<Self>,
        saved: FloatTensor<Self>,
        d_out: FloatTensor<Self>,
        given: Given,
        settings: AttentionSettings,
    ) -> (
        FloatTensor<Self>,
        FloatTensor<Self>,
        FloatTensor<Self>,
        FloatTensor<Self>,
    ) {
        let added = Added::<Self>::new(bias.clone(), mask, given);
        let limit = composed::limit::<Self>(&q);
        let ([q, k, v], bias_grad) =
            composed::backward::<Self>([q, k, v], &added, saved, d_out, settings, limit);
        // Without a bias, the gradient is a placeholder that is never read.
        (q, k, v, bias_grad.unwrap_or(bias))
    }
}

#[cfg(feature = "cube")]
impl AddedAttentionOps for burn_cubecl::CubeBackend {}

impl<B: AddedAttentionOps, C: CheckpointStrategy> AddedAttentionOps for Autodiff<B, C> {
    fn added_attention(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        mask: BoolTensor<Self>,
        given: Given,
        settings: AttentionSettings,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let (nodes, inputs) = split([q, k, v, bias]);
        let [q, k, v, bias] = inputs.clone();
        let (out, saved) = B::added_attention(q, k, v, bias, mask.clone(), given, settings);
        let state = (inputs, mask, saved.clone(), given, settings);
        let out = record::<B, C, _, _>(nodes, out, state, |state, d_out| {
            let ([q, k, v, bias], mask, saved, given, settings) = state;
            B::added_attention_backward(q, k, v, bias, mask, saved, d_out, given, settings).into()
        });
        (out, Self::from_inner(saved))
    }
}
