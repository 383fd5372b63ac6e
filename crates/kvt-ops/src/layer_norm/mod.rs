//! Layer normalisation (Ba et al., 2016), forward and backward.
//!
//! Under autodiff, Burn composes it of nine operations, each with a separate gradient: on the CPU, each is a pass on
//! one thread, and on a GPU a dozen kernels remain after fusion, where four are enough.

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
#[cfg(feature = "cube")]
use burn::backend::fusion::custom::TensorSpec;
use burn::backend::{
    Autodiff, AutodiffBackend, Dispatch, TensorMetadata, backend_extension, tensor::FloatTensor,
};
use burn::nn::LayerNorm;
use burn::tensor::{DType, FloatDType, Shape, Tensor};

use crate::autodiff::{record, split};
use crate::cast::{cast, widened};
use crate::convert::{ConvertOps, in_type};

mod cpu;
#[cfg(feature = "cube")]
mod gpu;

/// Layer normalisation on a backend, for non-empty tensors.
#[backend_extension(Cube: cfg(feature = "cube"), Flex, Capture: cfg(feature = "export"), Autodiff, Fusion: cfg(feature = "cube"))]
pub(crate) trait LayerNormOps: ConvertOps {
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

    /// [`Self::fused_layer_norm`], whose output is rounded to a type.
    #[fusion(default)]
    fn rounded_layer_norm(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        epsilon: f64,
        dtype: FloatDType,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let (out, mean, rstd) = Self::fused_layer_norm(x, gamma, beta, epsilon);
        (cast::<Self>(out, dtype.into()), mean, rstd)
    }

    /// [`Self::fused_layer_norm_backward`] of a gradient in that type.
    #[fusion(default)]
    fn rounded_layer_norm_backward(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        mean: FloatTensor<Self>,
        rstd: FloatTensor<Self>,
        grad: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let grad = cast::<Self>(grad, x.dtype());
        Self::fused_layer_norm_backward(x, gamma, mean, rstd, grad)
    }
}

impl<B: LayerNormOps, C: CheckpointStrategy> LayerNormOps for Autodiff<B, C> {
    fn fused_layer_norm(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        epsilon: f64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let dtype = x.dtype().into();
        Self::rounded_layer_norm(x, gamma, beta, epsilon, dtype)
    }

    fn rounded_layer_norm(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        epsilon: f64,
        dtype: FloatDType,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let (nodes, [x, gamma, beta]) = split([x, gamma, beta]);
        let given = (x.clone(), gamma.clone());
        let (out, mean, rstd) = B::rounded_layer_norm(given.0, given.1, beta, epsilon, dtype);
        let state = [x, gamma, mean.clone(), rstd.clone()];
        let out = record::<B, C, _, _>(nodes, out, state, |[x, gamma, mean, rstd], grad| {
            B::rounded_layer_norm_backward(x, gamma, mean, rstd, grad).into()
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
/// layer's weights: a layer in f32 returns f32 for an input of a half type. [`rounded_layer_norm`] returns another type.
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
    rounded_layer_norm(layer, x, epsilon, layer.gamma.val().dtype())
}

/// [`layer_norm`], rounded to a float type. The gradient comes in that type, and is rounded to it.
///
/// # Panics
/// As [`layer_norm`], and if the type is not a float.
pub fn rounded_layer_norm<const D: usize>(
    layer: &LayerNorm,
    x: Tensor<D>,
    epsilon: f64,
    dtype: DType,
) -> Tensor<D> {
    let x = match layer.gamma.val().dtype() {
        DType::F32 => widened(x),
        _ => x,
    };
    let Some(beta) = &layer.beta else {
        return in_type(layer.forward(x), dtype);
    };
    let (gamma, beta) = (layer.gamma.val(), beta.val());
    let ours = matches!(x.dtype(), DType::F32 | DType::F16 | DType::BF16)
        && [&gamma, &beta].map(|p| (p.dtype(), p.dims()[0])) == [(x.dtype(), x.dims()[D - 1]); 2]
        && x.shape().num_elements() > 0;
    if !ours {
        // Burn reports a shape mismatch.
        return in_type(layer.forward(x), dtype);
    }
    let [gamma, beta] = [gamma, beta].map(Tensor::into_dispatch);
    let dtype = dtype.into();
    let (out, ..) = Dispatch::rounded_layer_norm(x.into_dispatch(), gamma, beta, epsilon, dtype);
    Tensor::from_dispatch(out)
}
