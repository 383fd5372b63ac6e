//! k-NN attention as one operation, from q, k and v to the output.
//!
//! - `fused`: the CPU never writes scores to memory: it works in blocks of queries that stay in the cache, forward and
//!   backward. GPUs compose the attention of matrix products and the k-NN softmax (`composed`), and save the
//!   probabilities for the gradient if there are few.
//! - `flash`: GPU kernels that never store scores. The CPU runs `fused`.
//! - `added`: with a bias or a mask. The CPU works as in `fused`, GPUs compose it.
//!
//! The caller chooses among them.

use burn::backend::Dispatch;
use burn::tensor::{Bool, Tensor};

/// Defines the autodiff backward pass of the attention of a backend, from four methods of its trait: attention, its
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
                let out = record::<B, C, _, _>(nodes, out, state, |(inputs, settings), d_out| {
                    let [q, k, v, saved] = inputs;
                    B::$backward(q, k, v, saved, d_out, settings).into()
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
                let out = record::<B, C, _, _>(node, out, state, |state, d_out| {
                    let (qkv, saved, heads, settings) = state;
                    [B::$packed_backward(qkv, saved, d_out, heads, settings)]
                });
                (out, Self::from_inner(saved))
            }
        }
    };
}

mod added;
mod composed;
mod flash;
mod fused;
mod packed;

pub(crate) use added::AddedAttentionOps;
use added::Given;
pub(crate) use flash::FlashAttentionOps;
pub(crate) use fused::FusedAttentionOps;

/// Scale of the scores and number of kept keys.
#[derive(Clone, Copy, Debug)]
pub struct AttentionSettings {
    /// Factor of the scores.
    pub scale: f64,
    /// Keys kept per query, at least 1.
    pub kept: usize,
}

/// `softmax(top_k(scale q k^T)) v` in one operation on any device.
///
/// Computed in f32; the output has the type of the inputs. Keys are selected as in
/// [`knn_softmax`](crate::knn_softmax()).
///
/// Inputs should be finite: an infinite or undefined number of a key that a query drops, and of its value, whose weight is zero, makes
/// the query's output and gradients NaN in some implementations and not in others, which skip the key.
///
/// # Shapes
/// - `q`: `[batch, heads, query, head_dim]`
/// - `k`: `[batch, heads, key, head_dim]`
/// - `v`: `[batch, heads, key, value_dim]`
/// - output: `[batch, heads, query, value_dim]`
///
/// # Panics
/// If the shapes of the tensors do not match: the kernels would read out of bounds; or no key would be kept.
pub fn attention(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    settings: AttentionSettings,
) -> Tensor<4> {
    assert_fit(&q, &k, &v);
    assert_kept(settings);
    let (q, k, v) = (q.into_dispatch(), k.into_dispatch(), v.into_dispatch());
    Tensor::from_dispatch(Dispatch::fused_attention(q, k, v, settings).0)
}

/// [`attention`] with a bias that is added to the scores and a mask that hides keys, before the selection:
/// `softmax(top_k(scale q k^T + bias)) v` over the visible keys.
///
/// A hidden key has zero weight and is never kept before a visible one. A row without a visible key becomes NaN. The
/// tensors saved for the gradient are as for [`attention`]; GPUs compose this operation of matrix products.
///
/// # Shapes
/// - `q`, `k`, `v` and output: as [`attention`]
/// - `bias`: `[1 or batch, heads of a window, 1 or query, 1 or key]`
/// - `mask`: `[1 or batch, windows, 1 or query, 1 or key]`, `true` where a key is hidden
///
/// Windows can be folded into the heads, window by window, so that the second dimension of q, k and v is
/// `windows * heads of a window`: head `h` has the bias `h % heads of a window` and the mask
/// `h / heads of a window`. The second dimension of bias and mask can each be any divisor of the number of heads: 1
/// applies to all heads, and `heads` to each of them.
///
/// # Panics
/// If the shapes of the tensors do not match, or no key would be kept.
pub fn attention_with(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    bias: Option<Tensor<4>>,
    mask: Option<Tensor<4, Bool>>,
    settings: AttentionSettings,
) -> Tensor<4> {
    let given = Given {
        bias: bias.is_some(),
        mask: mask.is_some(),
    };
    if !given.bias && !given.mask {
        return attention(q, k, v, settings);
    }
    assert_fit(&q, &k, &v);
    assert_kept(settings);
    let device = q.device();
    let bias = bias.unwrap_or_else(|| Tensor::empty([1; 4], (&device, q.dtype())));
    let mask = mask.unwrap_or_else(|| Tensor::empty([1; 4], &device));
    assert_broadcast("bias", bias.dims(), &q, &k);
    assert_broadcast("mask", mask.dims(), &q, &k);
    let (q, k, v) = (q.into_dispatch(), k.into_dispatch(), v.into_dispatch());
    let (bias, mask) = (bias.into_dispatch(), mask.into_dispatch());
    let (out, _) = Dispatch::added_attention(q, k, v, bias, mask, given, settings);
    Tensor::from_dispatch(out)
}

/// [`attention`] in GPU kernels that do not write scores to device memory. The CPU runs [`attention`], which does not
/// store scores either.
///
/// If the kernels cannot run (rows of scores exceed the shared memory of the device, or a query, key or value has more
/// vectors of up to four numbers than a workgroup has threads), the GPU composes the attention of matrix products.
///
/// # Shapes
/// As [`attention`].
///
/// # Panics
/// If the shapes of the tensors do not match: the kernels would read out of bounds; or no key would be kept.
pub fn flash_attention(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    settings: AttentionSettings,
) -> Tensor<4> {
    assert_fit(&q, &k, &v);
    assert_kept(settings);
    let (q, k, v) = (q.into_dispatch(), k.into_dispatch(), v.into_dispatch());
    Tensor::from_dispatch(Dispatch::flash_attention(q, k, v, settings).0)
}

/// [`attention`] among the tokens, from the packed projection.
///
/// # Shapes
/// - `qkv`: `[batch, tokens, 3 * dim]` in the order `(3, heads, head_dim)`
/// - output: `[batch, tokens, dim]`
///
/// # Panics
/// If no key would be kept.
pub fn self_attention(qkv: Tensor<3>, heads: usize, settings: AttentionSettings) -> Tensor<3> {
    assert_kept(settings);
    let qkv = qkv.into_dispatch();
    Tensor::from_dispatch(Dispatch::fused_self_attention(qkv, heads, settings).0)
}

/// [`flash_attention`] among the tokens, from the packed projection.
///
/// # Shapes
/// As [`self_attention`].
///
/// # Panics
/// As [`self_attention`].
pub fn flash_self_attention(
    qkv: Tensor<3>,
    heads: usize,
    settings: AttentionSettings,
) -> Tensor<3> {
    assert_kept(settings);
    let qkv = qkv.into_dispatch();
    Tensor::from_dispatch(Dispatch::flash_self_attention(qkv, heads, settings).0)
}

fn assert_kept(settings: AttentionSettings) {
    assert!(settings.kept > 0, "attention: a query keeps at least 1 key");
}

fn assert_fit(q: &Tensor<4>, k: &Tensor<4>, v: &Tensor<4>) {
    let ([batch, heads, _, dim], [_, _, keys, value_dim]) = (q.dims(), v.dims());
    assert!(
        k.dims() == [batch, heads, keys, dim]
            && v.dims() == [batch, heads, keys, value_dim]
            && q.dtype() == k.dtype()
            && q.dtype() == v.dtype(),
        "attention: q {:?} of {:?}, k {:?} of {:?} and v {:?} of {:?} have mismatched shapes or types",
        q.dims(),
        q.dtype(),
        k.dims(),
        k.dtype(),
        v.dims(),
        v.dtype(),
    );
}

fn assert_broadcast(name: &str, shape: [usize; 4], q: &Tensor<4>, k: &Tensor<4>) {
    let [batch, heads, queries, _] = q.dims();
    let scores = [batch, heads, queries, k.dims()[2]];
    let divides = shape[1] > 0 && heads.is_multiple_of(shape[1]);
    let broadcast = |axis: usize| shape[axis] == 1 || shape[axis] == scores[axis];
    assert!(
        divides && [0, 2, 3].into_iter().all(broadcast),
        "attention: a {name} of {shape:?} does not fit scores of {scores:?}"
    );
}
