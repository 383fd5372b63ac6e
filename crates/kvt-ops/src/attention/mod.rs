//! k-NN attention as one operation, from q, k and v to the output.
//!
//! - `fused`: the CPU never stores a score: blocks of queries go through the cache, forward and backward. GPUs
//!   compose it of matrix products and the k-NN softmax (`composed`), and keep the probabilities for the
//!   gradient where these are few.
//! - `flash`: GPU kernels that never store a score. The CPU runs `fused`.
//!
//! The caller chooses between the two.

use burn::backend::Dispatch;
use burn::tensor::Tensor;

/// Gives the attention of a backend its backward pass, from four methods of its trait: attention, its
/// backward pass, and both for packed tokens.
macro_rules! record_backward {
    ($ops:ident {
        $attention:ident, $backward:ident, $packed:ident, $packed_backward:ident $(,)?
    }) => {
        impl<B: $ops, C: CheckpointStrategy> $ops for Autodiff<B, C> {
            fn $attention(
                q: FloatTensor<Self>,
                k: FloatTensor<Self>,
                v: FloatTensor<Self>,
                settings: AttentionSettings,
            ) -> (FloatTensor<Self>, FloatTensor<Self>) {
                let (nodes, [q, k, v]) = split([q, k, v]);
                let (out, saved) = B::$attention(q.clone(), k.clone(), v.clone(), settings);
                let state = ([q, k, v, saved.clone()], settings);
                let out = record::<B, C, _, _>(nodes, out, state, |(inputs, settings), grad| {
                    let [q, k, v, saved] = inputs;
                    B::$backward(q, k, v, saved, grad, settings).into()
                });
                (out, Self::from_inner(saved))
            }

            fn $packed(
                qkv: FloatTensor<Self>,
                heads: usize,
                settings: AttentionSettings,
            ) -> (FloatTensor<Self>, FloatTensor<Self>) {
                let (node, [qkv]) = split([qkv]);
                let (out, saved) = B::$packed(qkv.clone(), heads, settings);
                let state = (qkv, saved.clone(), heads, settings);
                let out = record::<B, C, _, _>(node, out, state, |state, grad| {
                    let (qkv, saved, heads, settings) = state;
                    [B::$packed_backward(qkv, saved, grad, heads, settings)]
                });
                (out, Self::from_inner(saved))
            }
        }
    };
}

mod composed;
mod flash;
mod fused;
mod packed;

use flash::FlashAttentionOps;
use fused::FusedAttentionOps;

/// Scale of the scores, and number of kept keys.
#[derive(Clone, Copy, Debug)]
pub struct AttentionSettings {
    /// Multiplies the scores.
    pub scale: f64,
    /// Keys that a query keeps, at least 1.
    pub kept: usize,
}

/// `softmax(top_k(scale q k^T)) v` in one operation on any device.
///
/// Computed in f32; the output has the type of the inputs. Keys are selected as by
/// [`knn_softmax`](crate::knn_softmax()).
///
/// # Shapes
/// - `q`: `[batch, heads, query, head_dim]`
/// - `k`: `[batch, heads, key, head_dim]`
/// - `v`: `[batch, heads, key, value_dim]`
/// - output: `[batch, heads, query, value_dim]`
///
/// # Panics
/// On tensors that do not fit together: the kernels would read past their ends.
pub fn attention(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    settings: AttentionSettings,
) -> Tensor<4> {
    assert_fit(&q, &k, &v);
    let (q, k, v) = (q.into_dispatch(), k.into_dispatch(), v.into_dispatch());
    Tensor::from_dispatch(Dispatch::fused_attention(q, k, v, settings).0)
}

/// [`attention`] in GPU kernels that keep the scores out of the device's memory. The CPU runs [`attention`],
/// which stores no scores there.
///
/// Where the kernels cannot run (rows of scores beyond the shared memory of the device, vectors of more numbers
/// than a cube has units), the GPU composes the attention of matrix products.
///
/// # Shapes
/// As [`attention`].
///
/// # Panics
/// On tensors that do not fit together: the kernels would read past their ends.
pub fn flash_attention(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    settings: AttentionSettings,
) -> Tensor<4> {
    assert_fit(&q, &k, &v);
    let (q, k, v) = (q.into_dispatch(), k.into_dispatch(), v.into_dispatch());
    Tensor::from_dispatch(Dispatch::flash_attention(q, k, v, settings).0)
}

/// [`attention`] of the tokens with each other, from the packed projection.
///
/// # Shapes
/// - `qkv`: `[batch, tokens, 3 * dim]` in the order `(3, heads, head_dim)`
/// - output: `[batch, tokens, dim]`
pub fn self_attention(qkv: Tensor<3>, heads: usize, settings: AttentionSettings) -> Tensor<3> {
    let qkv = qkv.into_dispatch();
    Tensor::from_dispatch(Dispatch::fused_self_attention(qkv, heads, settings).0)
}

/// [`flash_attention`] of the tokens with each other, from the packed projection.
///
/// # Shapes
/// As [`self_attention`].
pub fn flash_self_attention(
    qkv: Tensor<3>,
    heads: usize,
    settings: AttentionSettings,
) -> Tensor<3> {
    let qkv = qkv.into_dispatch();
    Tensor::from_dispatch(Dispatch::flash_self_attention(qkv, heads, settings).0)
}

fn assert_fit(q: &Tensor<4>, k: &Tensor<4>, v: &Tensor<4>) {
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
}
