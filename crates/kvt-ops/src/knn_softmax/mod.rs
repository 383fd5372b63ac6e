//! k-NN softmax: from scores to the probabilities of the kept keys, in one operation.
//!
//! Which scores are kept, and which of equal ones: [the rule](crate::top_k#the-rule). A row that contains NaN or +inf, or only
//! -inf, becomes NaN.

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::{Autodiff, Dispatch, backend_extension, tensor::FloatTensor};
use burn::tensor::Tensor;

use crate::autodiff::{record, split};
use crate::convert::ConvertOps;

mod cpu;
#[cfg(feature = "cube")]
mod gpu;

/// k-NN softmax on a backend.
#[backend_extension(Cube: cfg(feature = "cube"), Flex, Capture: cfg(feature = "export"), Autodiff, Fusion: cfg(feature = "cube"))]
pub(crate) trait KnnSoftmaxOps: ConvertOps {
    /// Softmax over the `k` largest scores of each row (last dimension), zero elsewhere; `k` is at least 1.
    #[fusion(dtype = scores, shape = scores)]
    fn knn_softmax(scores: FloatTensor<Self>, k: usize) -> FloatTensor<Self>;

    /// The gradient of the scores, multiplied by `scale`: `scale P (dP - sum(P dP))` per row. A dropped score has
    /// `P = 0` and so gets exactly zero: neither a mask nor the scores are needed.
    ///
    /// The default body is for `Autodiff`, which needs one: Burn has no second derivatives.
    #[fusion(dtype = probabilities, shape = probabilities)]
    fn knn_softmax_backward(
        probabilities: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        scale: f64,
    ) -> FloatTensor<Self> {
        let _ = (probabilities, grad, scale);
        unreachable!("the gradient of a gradient")
    }
}

impl<B: KnnSoftmaxOps, C: CheckpointStrategy> KnnSoftmaxOps for Autodiff<B, C> {
    fn knn_softmax(scores: FloatTensor<Self>, k: usize) -> FloatTensor<Self> {
        let (node, [scores]) = split([scores]);
        let probabilities = B::knn_softmax(scores, k);
        let state = probabilities.clone();
        record::<B, C, _, _>(node, probabilities, state, |probabilities, grad| {
            [B::knn_softmax_backward(probabilities, grad, 1.0)]
        })
    }
}

/// Softmax over the `k` largest scores of each row (last dimension) and zero elsewhere, on any device.
///
/// Computed in f32, even for half types and f64; the output has the type of the scores. Which of equal scores are kept says
/// [the rule](crate::top_k#the-rule). A row that contains NaN or +inf, or only -inf, becomes NaN.
///
/// # Shapes
/// `[.., key]` to the same shape.
///
/// # Panics
/// If `k` is zero.
pub fn knn_softmax<const D: usize>(scores: Tensor<D>, k: usize) -> Tensor<D> {
    assert!(k > 0, "knn_softmax: k must be at least 1");
    Tensor::from_dispatch(Dispatch::knn_softmax(scores.into_dispatch(), k))
}
