//! k-NN attention as one operation, from q, k and v to the output.
//!
//! On the CPU the scores are never stored: a block of queries at a time goes through the cache, in
//! both directions. The GPU runtimes compose it of matrix products and [`KnnOps::knn_softmax`]; they
//! keep the probabilities for the gradient where these are few (`composed.rs`). Where that is asked
//! for, they have kernels too that never store a score (`flash`).

use burn::backend::{Dispatch, TensorMetadata, backend_extension, tensor::FloatTensor};
use burn::tensor::{Shape, Tensor};

use super::KnnOps;

mod autodiff;
mod blocks;
mod composed;
#[cfg(feature = "cube")]
mod cube;
#[cfg(feature = "cube")]
mod flash;
mod flex;
#[cfg(feature = "cube")]
mod saved;

use composed::split;

/// What attention is to be computed, and how.
#[derive(Clone, Copy, Debug)]
pub struct AttentionSettings {
    /// Multiplies the scores.
    pub scale: f64,
    /// How many keys a query keeps, at least 1.
    pub kept: usize,
    /// Whether the scores are to stay out of the memory of a GPU. The CPU never stores them.
    pub flash: bool,
}

/// What a backend provides for attention.
///
/// The forward methods return the output and a tensor that the gradient needs, whose meaning is the
/// backend's own.
#[backend_extension(Cube: cfg(feature = "cube"), Flex, Autodiff, Fusion: cfg(feature = "cube"))]
pub trait AttentionOps: KnnOps {
    /// `softmax(top_k(scale q k^T)) v` of q, k, v `[batch, heads, tokens, head_dim]`.
    #[fusion(default)]
    fn knn_attention(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        settings: AttentionSettings,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        match settings.flash {
            true => Self::flash_attention(q, k, v, settings),
            false => composed::forward::<Self>([q, k, v], settings, composed::SCORES),
        }
    }

    /// The gradients of q, k and v from that of the output.
    #[fusion(default)]
    fn knn_attention_backward(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        saved: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        settings: AttentionSettings,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        match settings.flash {
            true => Self::flash_attention_backward(q, k, v, saved, grad, settings),
            false => composed::backward::<Self>([q, k, v], saved, grad, settings, composed::SCORES),
        }
    }

    /// [`Self::knn_attention`] where the scores are to stay out of memory. A backend that is fused saves
    /// `saved::words` of a row, whatever its device can do; this body saves what it likes.
    #[fusion(meta = saved::specs)]
    fn flash_attention(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        settings: AttentionSettings,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        composed::forward::<Self>([q, k, v], settings, composed::SCORES)
    }

    /// [`Self::knn_attention_backward`] of [`Self::flash_attention`].
    #[fusion(meta = |q, k, v, _saved, _grad, _settings| (q.clone(), k.clone(), v.clone()))]
    fn flash_attention_backward(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        _saved: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        settings: AttentionSettings,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        composed::backward_from_inputs::<Self>([q, k, v], grad, settings)
    }

    /// [`Self::knn_attention`] of the tokens with each other: `qkv` is `[batch, tokens, 3 * dim]` in the
    /// order `(3, heads, head_dim)`, the output `[batch, tokens, dim]`.
    #[fusion(default)]
    fn knn_self_attention(
        qkv: FloatTensor<Self>,
        heads: usize,
        settings: AttentionSettings,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let [q, k, v] = split::<Self>(&qkv, heads);
        let (out, saved) = Self::knn_attention(q, k, v, settings);
        let [batch, heads, tokens, dim] = out.shape().dims();
        let out = Self::float_swap_dims(out, 1, 2);
        let out = Self::float_reshape(out, Shape::new([batch, tokens, heads * dim]));
        (out, saved)
    }

    /// The gradient of `qkv` from that of the output.
    #[fusion(default)]
    fn knn_self_attention_backward(
        qkv: FloatTensor<Self>,
        saved: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        heads: usize,
        settings: AttentionSettings,
    ) -> FloatTensor<Self> {
        let [q, k, v] = split::<Self>(&qkv, heads);
        let [batch, heads, tokens, dim] = q.shape().dims();
        let grad = Self::float_reshape(grad, Shape::new([batch, tokens, heads, dim]));
        let grad = Self::float_swap_dims(grad, 1, 2);
        let (q, k, v) = Self::knn_attention_backward(q, k, v, saved, grad, settings);
        let parts = [q, k, v].map(|part| {
            let part = Self::float_swap_dims(part, 1, 2);
            Self::float_reshape(part, Shape::new([batch, tokens, heads * dim]))
        });
        Self::float_cat(parts.into(), 2)
    }
}

/// `softmax(top_k(scale q k^T)) v` on any device, with its own gradient.
///
/// # Panics
/// On tensors that do not fit together: the kernels would read past their ends.
pub fn attention(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    settings: AttentionSettings,
) -> Tensor<4> {
    let ([batch, heads, _, dim], [_, _, keys, value_dim]) = (q.dims(), v.dims());
    assert!(
        k.dims() == [batch, heads, keys, dim]
            && v.dims() == [batch, heads, keys, value_dim]
            && q.dtype() == k.dtype()
            && q.dtype() == v.dtype(),
        "attention: q {:?} of {:?}, k {:?} of {:?} and v {:?} of {:?} do not fit together",
        q.dims(),
        q.dtype(),
        k.dims(),
        k.dtype(),
        v.dims(),
        v.dtype(),
    );
    let (q, k, v) = (q.into_dispatch(), k.into_dispatch(), v.into_dispatch());
    Tensor::from_dispatch(Dispatch::knn_attention(q, k, v, settings).0)
}

/// [`attention`] of the tokens with each other, `[batch, tokens, 3 * dim]` to `[batch, tokens, dim]`.
pub fn self_attention(qkv: Tensor<3>, heads: usize, settings: AttentionSettings) -> Tensor<3> {
    Tensor::from_dispatch(Dispatch::knn_self_attention(qkv.into_dispatch(), heads, settings).0)
}
