//! Attention that never writes scores to GPU memory (after Dao et al., FlashAttention, 2022), with the selection of the
//! k best keys.
//!
//! For each row, only its maximum, its sum and, if keys are dropped, one bit per key are saved.

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::{Autodiff, AutodiffBackend, Flex, backend_extension, tensor::FloatTensor};

use super::fused::FusedAttentionOps;
use super::{AttentionSettings, packed};
use crate::autodiff::{record, split};

#[cfg(feature = "cube")]
mod gpu;

/// Flash attention on a backend, which defaults to the fused attention. The methods correspond to those of
/// [`FusedAttentionOps`].
#[backend_extension(Cube: cfg(feature = "cube"), Flex, Capture: cfg(feature = "export"), Autodiff, Fusion: cfg(feature = "cube"))]
pub(crate) trait FlashAttentionOps: FusedAttentionOps {
    /// As [`FusedAttentionOps::fused_attention`]. A fused backend saves `gpu::saved::words` per row, whether or not its
    /// device can run the kernels.
    #[fusion(meta = gpu::saved::specs)]
    fn flash_attention(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        settings: AttentionSettings,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        Self::fused_attention(q, k, v, settings)
    }

    /// As [`FusedAttentionOps::fused_attention_backward`].
    #[fusion(meta = |q, k, v, _saved, _d_out, _settings| (q.clone(), k.clone(), v.clone()))]
    fn flash_attention_backward(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        saved: FloatTensor<Self>,
        d_out: FloatTensor<Self>,
        settings: AttentionSettings,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        Self::fused_attention_backward(q, k, v, saved, d_out, settings)
    }

    /// As [`FusedAttentionOps::fused_self_attention`].
    #[fusion(default)]
    fn flash_self_attention(
        qkv: FloatTensor<Self>,
        heads: usize,
        settings: AttentionSettings,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let [q, k, v] = packed::split::<Self>(&qkv, heads);
        let (out, saved) = Self::flash_attention(q, k, v, settings);
        (packed::merge_heads::<Self>(out), saved)
    }

    /// As [`FusedAttentionOps::fused_self_attention_backward`].
    #[fusion(default)]
    fn flash_self_attention_backward(
        qkv: FloatTensor<Self>,
        saved: FloatTensor<Self>,
        d_out: FloatTensor<Self>,
        heads: usize,
        settings: AttentionSettings,
    ) -> FloatTensor<Self> {
        let [q, k, v] = packed::split::<Self>(&qkv, heads);
        let d_out = packed::split_heads::<Self>(d_out, heads);
        let (q, k, v) = Self::flash_attention_backward(q, k, v, saved, d_out, settings);
        packed::join::<Self>([q, k, v])
    }
}

/// The fused attention, without splitting `qkv`.
impl FlashAttentionOps for Flex {
    fn flash_self_attention(
        qkv: FloatTensor<Self>,
        heads: usize,
        settings: AttentionSettings,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        Self::fused_self_attention(qkv, heads, settings)
    }

    fn flash_self_attention_backward(
        qkv: FloatTensor<Self>,
        saved: FloatTensor<Self>,
        d_out: FloatTensor<Self>,
        heads: usize,
        settings: AttentionSettings,
    ) -> FloatTensor<Self> {
        Self::fused_self_attention_backward(qkv, saved, d_out, heads, settings)
    }
}

record_backward!(FlashAttentionOps {
    flash_attention,
    flash_attention_backward,
    flash_self_attention,
    flash_self_attention_backward,
});
