//! Attention on every CubeCL runtime: kernels of our own where these can do it, else composed.

use burn::backend::{TensorMetadata, tensor::FloatTensor};
use burn::tensor::{DType, Shape};
use burn_cubecl::CubeBackend;

use super::{AttentionOps, AttentionSettings, composed, flash, saved};
use crate::kernels::launch::empty;

impl AttentionOps for CubeBackend {
    fn flash_attention(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        settings: AttentionSettings,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let [batch, heads, queries, _] = q.shape().dims();
        let words = saved::words(k.shape()[2], settings.kept);
        let saved = empty(&q, Shape::new([batch, heads, queries, words]), DType::F32);
        let inputs = [q, k, v];
        let out = flash::forward(&inputs, &saved, settings)
            .unwrap_or_else(|| composed::forward::<Self>(inputs, settings, composed::SCORES).0);
        (out, saved)
    }

    fn flash_attention_backward(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        saved: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        settings: AttentionSettings,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let inputs = [q, k, v];
        match flash::backward(&inputs, &saved, &grad, settings) {
            Some([q, k, v]) => (q, k, v),
            None => composed::backward_from_inputs::<Self>(inputs, grad, settings),
        }
    }
}
