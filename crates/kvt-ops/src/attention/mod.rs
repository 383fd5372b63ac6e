//! k-NN attention as one operation, from q, k and v to the output.
//!
//! - `fused`: the CPU never writes scores to memory: it works in blocks of queries that stay in the cache, forward and
//!   backward, in f32 or with its instructions for bf16. GPUs compose the attention of matrix products and the k-NN softmax (`composed`), and save the
//!   probabilities for the gradient if there are few.
//! - `flash`: GPU kernels that never store scores, if the caller asks for them.
//! - `added`: a bias or a mask.

use burn::backend::Dispatch;
use burn::tensor::{Bool, Tensor};

mod added;
mod composed;
#[cfg(feature = "cube")]
mod flash;
mod fused;
mod packed;

use added::Added;
pub(crate) use fused::AttentionOps;

/// How attention is computed.
#[derive(Clone, Copy, Debug)]
pub struct AttentionSettings {
    /// Factor of the scores.
    pub scale: f64,
    /// Keys kept per query, at least 1.
    pub kept: usize,
    /// Whether a GPU runs kernels that do not write scores to device memory, if there is neither a bias nor a mask. The CPU does not
    /// store scores either way.
    ///
    /// If the kernels cannot run (rows of scores exceed the shared memory of the device, or a query, key or value has more
    /// vectors of up to four numbers than a workgroup has threads), the GPU composes the attention of matrix products.
    pub flash: bool,
}

impl AttentionSettings {
    /// The same without the kernels.
    fn composed(self) -> Self {
        Self {
            flash: false,
            ..self
        }
    }
}

/// `softmax(top_k(scale q k^T + bias)) v` over the visible keys, in one operation on any device. A bias is added to the scores and a
/// mask hides keys before the selection.
///
/// Scores, softmax and sums are f32; the output has the type of the inputs. In bf16, on a CPU with instructions for it, weights and gradients
/// of scores are rounded to bf16 for a product. Keys are selected as in
/// [`knn_softmax`](crate::knn_softmax()). A hidden key has zero weight and is never kept before a visible one. A row without a
/// visible key becomes NaN.
///
/// Inputs should be finite: an infinite or undefined number of a key that a query drops, and of its value, whose weight is zero, makes
/// the query's output and gradients NaN in some implementations and not in others, which skip the key.
///
/// # Shapes
/// - `q`: `[batch, heads, query, head_dim]`
/// - `k`: `[batch, heads, key, head_dim]`
/// - `v`: `[batch, heads, key, value_dim]`
/// - `bias`: `[1 or batch, heads of a window, 1 or query, 1 or key]`
/// - `mask`: `[1 or batch, windows, 1 or query, 1 or key]`, `true` where a key is hidden
/// - output: `[batch, heads, query, value_dim]`
///
/// Windows can be folded into the heads, window by window, so that the second dimension of q, k and v is
/// `windows * heads of a window`: head `h` has the bias `h % heads of a window` and the mask
/// `h / heads of a window`. The second dimension of bias and mask can each be any divisor of the number of heads: 1
/// applies to all heads, and `heads` to each of them.
///
/// # Panics
/// If the shapes of the tensors do not match: the kernels would read out of bounds; or no key would be kept.
pub fn attention(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    bias: Option<Tensor<4>>,
    mask: Option<Tensor<4, Bool>>,
    settings: AttentionSettings,
) -> Tensor<4> {
    assert_fit(&q, &k, &v);
    assert_kept(settings);
    let [batch, heads, queries, _] = q.dims();
    let scores = [batch, heads, queries, k.dims()[2]];
    assert_fits("bias", bias.as_ref().map(Tensor::dims), scores);
    assert_fits("mask", mask.as_ref().map(Tensor::dims), scores);
    let bias = bias.map(Tensor::into_dispatch);
    let added = Added::<Dispatch>::new(bias, mask.map(Tensor::into_dispatch));
    let (q, k, v) = (q.into_dispatch(), k.into_dispatch(), v.into_dispatch());
    Tensor::from_dispatch(Dispatch::fused_attention(q, k, v, added, settings).0)
}

/// How many heads and windows a packed projection has.
#[derive(Clone, Copy, Debug)]
pub struct Packing {
    /// Attention heads.
    pub heads: usize,
    /// Windows of an image, each of which is a sequence by itself; 1 if the image is one sequence.
    pub windows: usize,
}

impl Packing {
    /// Whether [`self_attention`] takes a bias of this shape, if it can be broadcast to the scores.
    pub fn takes(self, shape: [usize; 4]) -> bool {
        let heads = shape[1];
        heads > 0
            && heads.is_multiple_of(self.heads)
            && self.windows.is_multiple_of(heads / self.heads)
    }
}

/// [`attention`] among the tokens of each window, from the packed projection.
///
/// # Shapes
/// - `qkv`: `[batch * windows, tokens, 3 * dim]` in the order `(3, heads, head_dim)`
/// - `bias`: as for [`attention`] with the windows folded into the heads; its second dimension has the heads of one window, or
///   of several that divide the windows
/// - `mask`: as for [`attention`] with the windows folded into the heads
/// - output: `[batch * windows, tokens, dim]`
///
/// # Panics
/// If the shapes do not match, or no key would be kept.
pub fn self_attention(
    qkv: Tensor<3>,
    packing: Packing,
    bias: Option<Tensor<4>>,
    mask: Option<Tensor<4, Bool>>,
    settings: AttentionSettings,
) -> Tensor<3> {
    assert_kept(settings);
    let Packing { heads, windows } = packing;
    let [images, tokens, width] = qkv.dims();
    assert!(
        heads > 0
            && windows > 0
            && width.is_multiple_of(3 * heads)
            && images.is_multiple_of(windows),
        "attention: a projection of {:?} for {packing:?}",
        qkv.dims(),
    );
    let scores = [images / windows, windows * heads, tokens, tokens];
    assert_fits("bias", bias.as_ref().map(Tensor::dims), scores);
    assert_fits("mask", mask.as_ref().map(Tensor::dims), scores);
    if let Some(bias) = &bias {
        assert!(
            packing.takes(bias.dims()),
            "attention: a bias of {:?} for {packing:?}",
            bias.dims(),
        );
    }
    let bias = bias.map(Tensor::into_dispatch);
    let added = Added::<Dispatch>::new(bias, mask.map(Tensor::into_dispatch));
    let qkv = qkv.into_dispatch();
    Tensor::from_dispatch(Dispatch::fused_self_attention(qkv, added, packing, settings).0)
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

/// If there is a bias or a mask of this shape, it can be broadcast to the scores.
fn assert_fits(name: &str, shape: Option<[usize; 4]>, scores: [usize; 4]) {
    let Some(shape) = shape else {
        return;
    };
    let divides = shape[1] > 0 && scores[1].is_multiple_of(shape[1]);
    let broadcast = |axis: usize| shape[axis] == 1 || shape[axis] == scores[axis];
    assert!(
        divides && [0, 2, 3].into_iter().all(broadcast),
        "attention: a {name} of {shape:?} does not fit scores of {scores:?}"
    );
}
