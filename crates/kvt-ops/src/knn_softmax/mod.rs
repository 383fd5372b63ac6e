//! k-NN softmax: from scores to the probabilities of the kept keys, in one operation.

use burn::backend::{Backend, Dispatch, TensorMetadata, backend_extension, tensor::FloatTensor};
use burn::tensor::Tensor;

mod autodiff;
#[cfg(feature = "cube")]
mod cube;
mod flex;
#[cfg(feature = "cube")]
mod kernel;

/// What a backend provides for k-NN attention.
///
/// The macro writes the implementations for `Dispatch` (which routes by the first tensor) and for
/// `Fusion<B>`. `flex` has plain Rust, every CubeCL runtime a kernel, autodiff a backward pass.
#[backend_extension(Cube: cfg(feature = "cube"), Flex, Autodiff, Fusion: cfg(feature = "cube"))]
pub trait KnnOps: Backend {
    /// Softmax over the `k` largest scores of each row (last dimension), zero elsewhere.
    /// `k` is at least 1; `k >= n` is the plain softmax. Semantics: see the crate's documentation.
    #[fusion(dtype = scores, shape = scores)]
    fn knn_softmax(scores: FloatTensor<Self>, k: usize) -> FloatTensor<Self>;

    /// Gradient with respect to the scores: `P * (dP - sum(dP * P))` per row. A dropped score has
    /// `P = 0` and so receives exactly zero: neither a mask nor the scores are needed.
    #[fusion(dtype = probabilities, shape = probabilities)]
    fn knn_softmax_backward(
        probabilities: FloatTensor<Self>,
        grad: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let last = probabilities.rank() - 1;
        let weighted = Self::float_mul(probabilities.clone(), grad.clone());
        let sum = Self::float_sum_dim(weighted, last);
        Self::float_mul(probabilities, Self::float_sub(grad, sum))
    }
}

/// Softmax over the `k` largest scores of each row (last dimension) and zero elsewhere, on any
/// device, with its own gradient. All is computed in f32, also where scores come as f64, and given back in
/// the type of the scores.
///
/// # Panics
/// If `k` is zero.
pub fn knn_softmax<const D: usize>(scores: Tensor<D>, k: usize) -> Tensor<D> {
    assert!(k > 0, "knn_softmax: k must be at least 1");
    Tensor::from_dispatch(Dispatch::knn_softmax(scores.into_dispatch(), k))
}
