//! The MLP of a transformer block, added to a residual: `r + gelu(x W1 + b1) W2 + b2`.
//!
//! With autodiff and on GPUs, it is composed of two linear layers and a GELU. On the CPU, without autodiff, block by block: the hidden
//! values of some rows, four times as many as there are inputs in most models, stay in the cache of one thread, and nothing is kept.

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::{Autodiff, Dispatch, backend_extension, tensor::FloatTensor};
use burn::module::Param;
use burn::nn::Linear;
use burn::tensor::Tensor;

use crate::gelu::{Curve, GeluOps, gelu};
use crate::linear::{LinearOps, fits, linear, linear_add};
use crate::optional::Optional;
use crate::residual::Residual;

mod cpu;

/// The MLP on a backend; the default implementation is composed.
#[backend_extension(Cube: cfg(feature = "cube"), Flex, Capture: cfg(feature = "export"), Autodiff, Fusion: cfg(feature = "cube"))]
pub(crate) trait MlpOps: LinearOps + GeluOps {
    /// `r + gelu(x W1 + b1) W2 + b2` in the type of r, for x `[.., input]`, W1 `[input, hidden]`, W2 `[hidden, output]` and r
    /// `[.., output]`. Products have the type of x.
    #[fusion(default)]
    fn gelu_mlp(
        x: FloatTensor<Self>,
        weight1: FloatTensor<Self>,
        bias1: FloatTensor<Self>,
        weight2: FloatTensor<Self>,
        bias2: FloatTensor<Self>,
        residual: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        composed::<Self>(x, [weight1, bias1], [weight2, bias2], residual)
    }
}

#[cfg(feature = "cube")]
impl MlpOps for burn_cubecl::CubeBackend {}

/// Composed of operations that record themselves.
impl<B: MlpOps, C: CheckpointStrategy> MlpOps for Autodiff<B, C> {}

/// [`MlpOps::gelu_mlp`] of two linear layers and a GELU.
fn composed<B: LinearOps + GeluOps>(
    x: FloatTensor<B>,
    [weight1, bias1]: [FloatTensor<B>; 2],
    [weight2, bias2]: [FloatTensor<B>; 2],
    residual: FloatTensor<B>,
) -> FloatTensor<B> {
    let hidden = B::affine(x, weight1, bias1, Optional::Missing);
    let hidden = B::gelu_by(hidden, Curve::Exact);
    B::affine(hidden, weight2, bias2, Optional::Given(residual))
}

/// Two linear layers with an exact GELU between them, added to a residual, on any device: the result of
/// `linear_add(second, gelu(linear(first, x)), residual)`.
///
/// # Shapes
/// - `x`: `[.., input]`
/// - `residual` and output: `[.., output]`, as in [`linear_add`]
///
/// # Panics
/// As [`linear`] and [`linear_add`].
pub fn mlp_add<const D: usize>(
    [first, second]: [&Linear; 2],
    x: Tensor<D>,
    residual: impl Into<Residual<D>>,
) -> Tensor<D> {
    let residual = residual.into();
    let [bias1, bias2] = [first, second].map(|layer| layer.bias.as_ref().map(Param::val));
    let [weight1, weight2] = [first, second].map(|layer| layer.weight.val());
    let mut shape = x.dims();
    shape[D - 1] = weight2.dims()[1];
    let has_width = |bias: &Option<Tensor<1>>, weight: &Tensor<2>| {
        let fits = |bias: &Tensor<1>| bias.dims()[0] == weight.dims()[1];
        bias.as_ref().is_none_or(fits)
    };
    let is_one_step = residual.scale.is_none()
        && has_width(&bias1, &weight1)
        && has_width(&bias2, &weight2)
        && residual.stream.dims() == shape
        && fits(&x, &weight1)
        && weight1.dims()[1] == weight2.dims()[0];
    let (Some(bias1), Some(bias2), true) = (bias1, bias2, is_one_step) else {
        return linear_add(second, gelu(linear(first, x)), residual);
    };
    let [weight1, weight2] = [weight1, weight2].map(Tensor::into_dispatch);
    let [bias1, bias2] = [bias1, bias2].map(Tensor::into_dispatch);
    let (x, stream) = (x.into_dispatch(), residual.stream.into_dispatch());
    Tensor::from_dispatch(Dispatch::gelu_mlp(
        x, weight1, bias1, weight2, bias2, stream,
    ))
}
