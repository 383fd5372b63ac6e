//! A linear layer with a bias, `x W + b`, alone or added to a residual, `r + x W + b`.
//!
//! Burn's own adds the bias, and sums its gradient, in passes over one thread on the CPU. Here both
//! are spread over the threads, and so is the sum over the rows in the gradient of the weight; the
//! product is added to a residual while it is made. Elsewhere it is Burn's.
//!
//! [`linear`] and [`linear_add`] are where activations meet weights, so the type of a product is chosen here: mixed precision
//! casts weight and bias to the type of `x`. Today all of them are f32.

use burn::backend::{Backend, Dispatch, backend_extension, tensor::FloatTensor};
use burn::module::Param;
use burn::nn::Linear;
use burn::tensor::Tensor;

mod autodiff;
mod flex;

#[cfg(feature = "cube")]
impl LinearOps for burn_cubecl::CubeBackend {}

/// What a backend provides for linear layers.
#[backend_extension(Cube: cfg(feature = "cube"), Flex, Autodiff, Fusion: cfg(feature = "cube"))]
pub trait LinearOps: Backend {
    /// `x W + b` of x `[.., input]`, W `[input, output]` and b `[output]`.
    #[fusion(default)]
    fn affine(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        Self::linear(x, weight, Some(bias))
    }

    /// `r + x W + b`, with r `[.., output]`.
    #[fusion(default)]
    fn affine_add(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        residual: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        Self::float_add(residual, Self::affine(x, weight, bias))
    }

    /// The gradients of x, W and b.
    #[fusion(default)]
    fn affine_backward(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        grad: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        (
            Self::linear_x_backward(weight, grad.clone()),
            Self::linear_weight_backward(x, grad.clone()),
            Self::linear_bias_backward(grad),
        )
    }
}

/// A linear layer on any device; one without a bias is Burn's own.
///
/// # Shapes
/// `[.., input]` to `[.., output]`.
pub fn linear<const D: usize>(layer: &Linear, x: Tensor<D>) -> Tensor<D> {
    let Some(bias) = &layer.bias else {
        return layer.forward(x);
    };
    let (weight, bias) = (layer.weight.val(), bias.val());
    // Burn says what is wrong with a shape that does not fit.
    if D < 2 || x.dims()[D - 1] != weight.dims()[0] {
        return layer.forward(x);
    }
    let (weight, bias) = (weight.into_dispatch(), bias.into_dispatch());
    Tensor::from_dispatch(Dispatch::affine(x.into_dispatch(), weight, bias))
}

/// [`linear`] added to `residual`, `[.., output]`.
pub fn linear_add<const D: usize>(layer: &Linear, x: Tensor<D>, residual: Tensor<D>) -> Tensor<D> {
    let fits = |bias: &Tensor<1>| {
        let mut shape = x.dims();
        shape[D - 1] = bias.dims()[0];
        D >= 2 && x.dims()[D - 1] == layer.weight.dims()[0] && shape == residual.dims()
    };
    match layer.bias.as_ref().map(Param::val).filter(fits) {
        Some(bias) => {
            let (weight, bias) = (layer.weight.val().into_dispatch(), bias.into_dispatch());
            let (x, residual) = (x.into_dispatch(), residual.into_dispatch());
            Tensor::from_dispatch(Dispatch::affine_add(x, weight, bias, residual))
        }
        None => residual + linear(layer, x),
    }
}
