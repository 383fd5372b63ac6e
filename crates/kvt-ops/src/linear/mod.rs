//! A linear layer with a bias, `x W + b`, alone or added to a residual, `r + x W + b`.
//!
//! On the CPU Burn adds the bias, and sums its gradient, on one thread. Here both use all threads, as does the
//! sum over the rows in the gradient of the weight, and the product is accumulated onto the residual.
//! GPUs use Burn's linear layer.
//!
//! [`linear`] and [`linear_add`] are where activations meet weights, so the type of a product is chosen here: mixed precision
//! casts weight and bias to the type of `x`. Today all of them are f32.

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::{Autodiff, Backend, Dispatch, backend_extension, tensor::FloatTensor};
use burn::module::Param;
use burn::nn::Linear;
use burn::tensor::Tensor;

use crate::autodiff::{record, split};

mod cpu;

/// Linear layers on a backend; the defaults are Burn's.
#[backend_extension(Cube: cfg(feature = "cube"), Flex, Autodiff, Fusion: cfg(feature = "cube"))]
pub(crate) trait LinearOps: Backend {
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
        burn_backward::<Self>(x, weight, grad)
    }
}

#[cfg(feature = "cube")]
impl LinearOps for burn_cubecl::CubeBackend {}

impl<B: LinearOps, C: CheckpointStrategy> LinearOps for Autodiff<B, C> {
    fn affine(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let (nodes, [x, weight, bias]) = split([x, weight, bias]);
        let out = B::affine(x.clone(), weight.clone(), bias);
        record::<B, C, _, _>(nodes, out, [x, weight], |[x, weight], grad| {
            B::affine_backward(x, weight, grad).into()
        })
    }

    fn affine_add(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        residual: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let (nodes, [x, weight, bias, residual]) = split([x, weight, bias, residual]);
        let out = B::affine_add(x.clone(), weight.clone(), bias, residual);
        record::<B, C, _, _>(nodes, out, [x, weight], |[x, weight], grad| {
            let (x, weight, bias) = B::affine_backward(x, weight, grad.clone());
            [x, weight, bias, grad]
        })
    }
}

/// The gradients of x, W and b by Burn's own linear layer.
fn burn_backward<B: Backend>(
    x: FloatTensor<B>,
    weight: FloatTensor<B>,
    grad: FloatTensor<B>,
) -> (FloatTensor<B>, FloatTensor<B>, FloatTensor<B>) {
    (
        B::linear_x_backward(weight, grad.clone()),
        B::linear_weight_backward(x, grad.clone()),
        B::linear_bias_backward(grad),
    )
}

/// A linear layer on any device. Burn's own runs where the layer has no bias.
///
/// # Shapes
/// `[.., input]` to `[.., output]`.
///
/// # Panics
/// As Burn's layer, on an input of another width.
pub fn linear<const D: usize>(layer: &Linear, x: Tensor<D>) -> Tensor<D> {
    let Some(bias) = &layer.bias else {
        return layer.forward(x);
    };
    let (weight, bias) = (layer.weight.val(), bias.val());
    // Burn reports a shape that does not fit.
    if D < 2 || x.dims()[D - 1] != weight.dims()[0] {
        return layer.forward(x);
    }
    let (weight, bias) = (weight.into_dispatch(), bias.into_dispatch());
    Tensor::from_dispatch(Dispatch::affine(x.into_dispatch(), weight, bias))
}

/// [`linear`] added to a residual: `residual + x W + b`.
///
/// # Shapes
/// - `x`: `[.., input]`
/// - `residual` and output: `[.., output]`; a residual of another shape is broadcast
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
