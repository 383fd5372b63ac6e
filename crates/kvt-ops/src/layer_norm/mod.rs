//! Layer normalisation (Ba et al., 2016), forward and backward.
//!
//! Under autodiff, Burn composes it of nine operations, each with a separate gradient: on the CPU, each is a pass on
//! one thread, and on a GPU a dozen kernels remain after fusion, where four are enough.

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
#[cfg(feature = "cube")]
use burn::backend::fusion::custom::TensorSpec;
use burn::backend::{
    Autodiff, AutodiffBackend, Backend, Dispatch, backend_extension, tensor::FloatTensor,
};
use burn::nn::LayerNorm;
use burn::tensor::{DType, Shape, Tensor};

use crate::autodiff::{record, split};
use crate::cast::widened;

mod cpu;
#[cfg(feature = "cube")]
mod gpu;

/// Layer normalisation on a backend, for non-empty tensors.
#[backend_extension(Cube: cfg(feature = "cube"), Flex, Capture: cfg(feature = "export"), Autodiff, Fusion: cfg(feature = "cube"))]
pub(crate) trait LayerNormOps: Backend {
    /// `(x - mean) / sqrt(variance + epsilon) * gamma + beta` over the last dimension. Returns the output, and for each
    /// row the mean and `rstd = 1 / sqrt(variance + epsilon)` in f32, `[.., 1]` each.
    #[fusion(meta = |x, _gamma, _beta, _epsilon| (x.clone(), statistic(x), statistic(x)))]
    fn fused_layer_norm(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        epsilon: f64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);

    /// The gradients of x, gamma and beta: with `x_hat = (x - mean) rstd` and `g = grad gamma`, the first is
    /// `(g - mean(g) - x_hat mean(g x_hat)) rstd`.
    ///
    /// The default body is for `Autodiff`, which needs one: Burn has no second derivatives.
    #[fusion(meta = |x, gamma, _mean, _rstd, _grad| (x.clone(), gamma.clone(), gamma.clone()))]
    fn fused_layer_norm_backward(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        mean: FloatTensor<Self>,
        rstd: FloatTensor<Self>,
        grad: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let _ = (x, gamma, mean, rstd, grad);
        unreachable!("the gradient of a gradient")
    }
}

impl<B: LayerNormOps, C: CheckpointStrategy> LayerNormOps for Autodiff<B, C> {
    fn fused_layer_norm(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        epsilon: f64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let (nodes, [x, gamma, beta]) = split([x, gamma, beta]);
        let (out, mean, rstd) = B::fused_layer_norm(x.clone(), gamma.clone(), beta, epsilon);
        let state = [x, gamma, mean.clone(), rstd.clone()];
        let out = record::<B, C, _, _>(nodes, out, state, |[x, gamma, mean, rstd], grad| {
            B::fused_layer_norm_backward(x, gamma, mean, rstd, grad).into()
        });
        (out, Self::from_inner(mean), Self::from_inner(rstd))
    }
}

/// A statistic of each row, in f32.
#[cfg(feature = "cube")]
fn statistic(x: &TensorSpec) -> TensorSpec {
    TensorSpec::new(one_per_row(&x.shape), DType::F32)
}

/// The shape with one value per row.
fn one_per_row(shape: &Shape) -> Shape {
    let mut shape = shape.clone();
    let last = shape.num_dims() - 1;
    shape[last] = 1;
    shape
}

/// Layer normalisation over the last dimension, on any device. Half types are summed in f32. The output has the type of the
/// layer's weights: a layer in f32 returns f32 for an input of a half type.
///
/// `epsilon` is the value that the layer was created with, which is private in Burn. A layer without beta, or in f64,
/// uses Burn's operation.
///
/// # Shapes
/// `[.., width]` to the same shape.
///
/// # Panics
/// As Burn's layer, if the width of the input does not match.
pub fn layer_norm<const D: usize>(layer: &LayerNorm, x: Tensor<D>, epsilon: f64) -> Tensor<D> {
    let x = match layer.gamma.val().dtype() {
        DType::F32 => widened(x),
        _ => x,
    };
    let Some(beta) = &layer.beta else {
        return layer.forward(x);
    };
    let (gamma, beta) = (layer.gamma.val(), beta.val());
    let ours = matches!(x.dtype(), DType::F32 | DType::F16 | DType::BF16)
        && [&gamma, &beta].map(|p| (p.dtype(), p.dims()[0])) == [(x.dtype(), x.dims()[D - 1]); 2]
        && x.shape().num_elements() > 0;
    if !ours {
        // Burn reports a shape mismatch.
        return layer.forward(x);
    }
    let (gamma, beta) = (gamma.into_dispatch(), beta.into_dispatch());
    Tensor::from_dispatch(Dispatch::fused_layer_norm(x.into_dispatch(), gamma, beta, epsilon).0)
}
