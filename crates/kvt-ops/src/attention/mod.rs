//! k-NN attention as one operation, from q, k and v to the output.
//!
//! - `fused`: the CPU never stores a score: blocks of queries go through the cache, forward and backward. GPUs
//!   compose it of matrix products and the k-NN softmax (`composed`), and keep the probabilities for the
//!   gradient where these are few.
//! - `flash`: GPU kernels that never store a score. The CPU runs `fused`.
//! - `added`: with a bias or a mask. The CPU does as for `fused`, GPUs compose it.
//!
//! The caller chooses among them.

use burn::backend::Dispatch;
use burn::tensor::{Bool, Tensor};

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

mod added;
mod composed;
mod flash;
mod fused;
mod packed;

use added::{AddedAttentionOps, Given};
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

/// [`attention`] with a bias that is added to the scores and a mask that hides keys, before the selection:
/// `softmax(top_k(scale q k^T + bias)) v` over the visible keys.
///
/// A hidden key has no weight and is never kept before a visible one. A row without a visible key becomes NaN.
/// What is saved for the gradient is as for [`attention`]; GPUs compose it of matrix products.
///
/// # Shapes
/// - `q`, `k`, `v` and output: as [`attention`]
/// - `bias`: `[1 or batch, heads of a window, 1 or query, 1 or key]`
/// - `mask`: `[1 or batch, windows, 1 or query, 1 or key]`, `true` where a key is hidden
///
/// Windows may stand beside the heads, window by window, so that the second dimension of q, k and v is `windows *
/// heads of a window`: head `h` has the bias `h % heads of a window` and the mask `h / heads of a window`. For bias
/// and mask alone, each of the two numbers may be any divisor of the heads: 1 is for all heads, and `heads` for each
/// of them.
///
/// # Panics
/// On tensors that do not fit together.
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
