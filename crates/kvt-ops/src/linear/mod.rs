//! A linear layer with a bias: `x W + b`, or added to a residual, `r + x W + b`. `r + s (x W + b)`, with one number `s` per sample, is
//! the first and [`Residual::plus`].
//!
//! On the CPU, Burn adds the bias and sums its gradient on one thread, and the gradient of the weight is a product per
//! sample. Here all threads share one product; in f32, it is accumulated onto the residual. GPUs use Burn's
//! product, and Burn fuses bias, casts, scale and residual into one kernel after it.
//!
//! [`linear`] and [`linear_add`] are where activations meet weights, so the type of a product is chosen here: the type of
//! `x`. Weight and bias can have another type: they are rounded to the type of `x`, and their gradients have their own types.
//! Both operands always have the same type, since not every backend rejects a product of two types. On CPUs with bf16
//! instructions, products of bf16 numbers use them. Every product of half types or on a CPU goes through `affine`, with a bias of
//! zeros if the layer has none.

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::{Autodiff, Dispatch, TensorMetadata, backend_extension, tensor::FloatTensor};
use burn::module::Param;
use burn::nn::Linear;
use burn::tensor::module::linear as burn_linear;
use burn::tensor::{Device, FloatDType, Tensor};

use crate::autodiff::{record_asked, split, split_optional};
use crate::cast::{cast, is_half};
use crate::convert::{ConvertOps, in_type};
use crate::optional::Optional;
use crate::residual::Residual;

mod bf16;
pub(crate) mod cpu;

/// Linear layers on a backend; the default implementations are Burn's.
#[backend_extension(Cube: cfg(feature = "cube"), Flex, Capture: cfg(feature = "export"), Autodiff, Fusion: cfg(feature = "cube"))]
pub(crate) trait LinearOps: ConvertOps {
    /// `x W + b` in the type of x, for x `[.., input]`, W `[input, output]` and b `[output]`. With r `[.., output]`: `r + x W + b`
    /// in the type of r.
    #[fusion(default)]
    fn affine(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        #[extension_type] residual: Optional<Self>,
    ) -> FloatTensor<Self> {
        burn_forward::<Self>(x, weight, bias, residual.get())
    }

    /// The gradient of x in its type, `dtype`, and those of W, if x is given, and b, if it is asked for, in the type of W. That of x is
    /// the same with and without x.
    #[fusion(default)]
    fn affine_backward(
        #[extension_type] x: Optional<Self>,
        weight: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        dtype: FloatDType,
        of_bias: bool,
    ) -> (
        FloatTensor<Self>,
        Option<FloatTensor<Self>>,
        Option<FloatTensor<Self>>,
    ) {
        burn_backward::<Self>(x.get(), weight, grad, dtype, of_bias)
    }
}

#[cfg(feature = "cube")]
impl LinearOps for burn_cubecl::CubeBackend {}

impl<B: LinearOps, C: CheckpointStrategy> LinearOps for Autodiff<B, C> {
    fn affine(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        residual: Optional<Self>,
    ) -> FloatTensor<Self> {
        let is_trained = weight.is_tracked() || bias.is_tracked();
        let ([of_x, of_weight, of_bias], [x, weight, bias]) = split([x, weight, bias]);
        let (of_residual, residual) = split_optional::<B>(residual.get(), &x);
        let nodes = [of_x, of_weight, of_bias, of_residual];
        let (residual, dtype) = (Optional::<B>::of(residual), FloatDType::from(x.dtype()));
        let out = B::affine(x.clone(), weight.clone(), bias, residual);
        // Only the gradients of W and b need x: a layer that is frozen does not keep its input.
        let state = (is_trained.then_some(x), weight, dtype);
        record_asked::<B, C, _, _>(nodes, out, state, |(x, weight, dtype), grad, asked| {
            let [_, _, of_bias, of_residual] = asked;
            let residual = of_residual.then(|| grad.clone());
            let x = Optional::<B>::of(x);
            let (x, weight, bias) = B::affine_backward(x, weight, grad, dtype, of_bias);
            [Some(x), weight, bias, residual]
        })
    }
}

/// [`LinearOps::affine`] with Burn's linear layer, whose operands have the same type.
fn burn_forward<B: ConvertOps>(
    x: FloatTensor<B>,
    weight: FloatTensor<B>,
    bias: FloatTensor<B>,
    residual: Option<FloatTensor<B>>,
) -> FloatTensor<B> {
    let dtype = x.dtype();
    let [weight, bias] = [weight, bias].map(|x| cast::<B>(x, dtype));
    let out = B::linear(x, weight, Some(bias));
    match residual {
        Some(residual) => add_branch::<B>(residual, out),
        None => out,
    }
}

/// Adds a branch of any type to the residual.
fn add_branch<B: ConvertOps>(residual: FloatTensor<B>, branch: FloatTensor<B>) -> FloatTensor<B> {
    let branch = cast::<B>(branch, residual.dtype());
    B::float_add(residual, branch)
}

/// [`LinearOps::affine_backward`] with Burn's linear layer.
fn burn_backward<B: ConvertOps>(
    x: Option<FloatTensor<B>>,
    weight: FloatTensor<B>,
    grad: FloatTensor<B>,
    dtype: FloatDType,
    of_bias: bool,
) -> (
    FloatTensor<B>,
    Option<FloatTensor<B>>,
    Option<FloatTensor<B>>,
) {
    let own = weight.dtype();
    let [weight, grad] = [weight, grad].map(|x| cast::<B>(x, dtype.into()));
    (
        B::linear_x_backward(weight, grad.clone()),
        x.map(|x| cast::<B>(B::linear_weight_backward(x, grad.clone()), own)),
        of_bias.then(|| cast::<B>(B::linear_bias_backward(grad), own)),
    )
}

/// A linear layer on any device, in the type of `x`. On GPUs, an f32 layer without a bias uses Burn's operation.
///
/// # Shapes
/// `[.., input]` to `[.., output]`.
///
/// # Panics
/// As Burn's layer, if the width of the input does not match.
pub fn linear<const D: usize>(layer: &Linear, x: Tensor<D>) -> Tensor<D> {
    let weight = layer.weight.val();
    match &layer.bias {
        Some(bias) if fits(&x, &weight) => affine(x, weight, bias.val(), Optional::Missing),
        bias => linear_with(x, weight, bias.as_ref().map(Param::val)),
    }
}

/// [`linear`] with a weight that is not in a [`Linear`]: that of a convolution, or the joined weights of several layers. On
/// GPUs, it uses Burn's operation in f32.
///
/// # Shapes
/// - `x`: `[.., input]`
/// - `weight`: `[input, output]`
/// - `bias`: `[output]`
/// - output: `[.., output]`
///
/// # Panics
/// As Burn's layer, if the width of the input does not match.
pub fn linear_with<const D: usize>(
    x: Tensor<D>,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
) -> Tensor<D> {
    let dtype = x.dtype();
    let is_ours = is_half(dtype) || x.device() == Device::flex();
    // Burn reports a shape mismatch.
    if !is_ours || !fits(&x, &weight) {
        let bias = bias.map(|bias| in_type(bias, dtype));
        return burn_linear(x, in_type(weight, dtype), bias);
    }
    let nothing = || Tensor::zeros([weight.dims()[1]], (&x.device(), dtype));
    let bias = bias.unwrap_or_else(nothing);
    affine(x, weight, bias, Optional::Missing)
}

/// [`LinearOps::affine`].
fn affine<const D: usize>(
    x: Tensor<D>,
    weight: Tensor<2>,
    bias: Tensor<1>,
    residual: Optional<Dispatch>,
) -> Tensor<D> {
    let (weight, bias) = (weight.into_dispatch(), bias.into_dispatch());
    let x = x.into_dispatch();
    Tensor::from_dispatch(Dispatch::affine(x, weight, bias, residual))
}

/// Whether the rows of an input have the width that a weight takes.
pub(crate) fn fits<const D: usize>(x: &Tensor<D>, weight: &Tensor<2>) -> bool {
    D >= 2 && x.dims()[D - 1] == weight.dims()[0]
}

/// [`linear`] added to a residual: `residual + x W + b`, in the type of the residual, with the branch multiplied by the scale of
/// the [`Residual`] if it has one. A product in a half type, the type of `x`, is rounded to it before it is added.
///
/// # Shapes
/// - `x`: `[.., input]`
/// - `residual` and output: `[.., output]`; without a scale, a residual of another shape is broadcast
///
/// # Panics
/// As [`linear`] and [`Residual::plus`].
pub fn linear_add<const D: usize>(
    layer: &Linear,
    x: Tensor<D>,
    residual: impl Into<Residual<D>>,
) -> Tensor<D> {
    let residual = residual.into();
    let weight = layer.weight.val();
    let is_one_step = |bias: &Tensor<1>| {
        let mut shape = x.dims();
        shape[D - 1] = bias.dims()[0];
        residual.scale.is_none() && fits(&x, &weight) && shape == residual.stream.dims()
    };
    let Some(bias) = layer.bias.as_ref().map(Param::val).filter(is_one_step) else {
        return residual.plus(linear(layer, x));
    };
    let stream = residual.stream.into_dispatch();
    affine(x, weight, bias, Optional::Given(stream))
}
