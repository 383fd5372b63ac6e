//! The MLP of a transformer block: `gelu(x W1 + b1) W2 + b2`, by itself or added to a residual.
//!
//! On GPUs, and for export, it is composed of two linear layers and a GELU, before it reaches a backend. On the CPU it goes block by block: the hidden values of some rows, four times as
//! many as there are inputs in most models, stay in the cache of one thread, in f32, and in bf16 on CPUs with instructions for it. What training keeps
//! is `x W1 + b1`, from which the backward pass makes the GELU again.

#![expect(
    clippy::type_complexity,
    reason = "an operation of a backend extension names the types of its outputs"
)]

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::{Autodiff, Dispatch, TensorMetadata, backend_extension, tensor::FloatTensor};
use burn::module::Param;
use burn::nn::Linear;
use burn::tensor::{DType, Device, FloatDType, Tensor};

use crate::autodiff::{record_asked, split, split_optional};
use crate::gelu::{Gelu, GeluOps};
use crate::linear::{LinearOps, fits, linear, linear_add};
use crate::optional::Optional;
use crate::residual::Residual;

mod cpu;

/// The MLP on a backend; the default implementations are composed.
#[backend_extension(Cube: cfg(feature = "cube"), Flex, Capture: cfg(feature = "export"), Autodiff, Fusion: cfg(feature = "cube"))]
pub(crate) trait MlpOps: LinearOps + GeluOps {
    /// `gelu(x W1 + b1) W2 + b2` in the type of x, for x `[.., input]`, W1 `[input, hidden]` and W2 `[hidden, output]`. With r `[.., output]`
    /// it is added to it, in the type of r. Products have the type of x.
    #[fusion(default)]
    fn gelu_mlp(
        x: FloatTensor<Self>,
        weight1: FloatTensor<Self>,
        bias1: FloatTensor<Self>,
        weight2: FloatTensor<Self>,
        bias2: FloatTensor<Self>,
        #[extension_type] residual: Optional<Self>,
        curve: Gelu,
    ) -> FloatTensor<Self> {
        composed::<Self>(x, [[weight1, bias1], [weight2, bias2]], residual, curve).0
    }

    /// The same, and `x W1 + b1` for the backward pass.
    #[fusion(default)]
    fn gelu_mlp_kept(
        x: FloatTensor<Self>,
        weight1: FloatTensor<Self>,
        bias1: FloatTensor<Self>,
        weight2: FloatTensor<Self>,
        bias2: FloatTensor<Self>,
        #[extension_type] residual: Optional<Self>,
        curve: Gelu,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        composed::<Self>(x, [[weight1, bias1], [weight2, bias2]], residual, curve)
    }

    /// The gradients of x, of W1 and b1 if x is given, and of W2 and b2 if they are asked for, from `hidden = x W1 + b1`.
    #[fusion(default)]
    fn gelu_mlp_backward(
        #[extension_type] x: Optional<Self>,
        weight1: FloatTensor<Self>,
        hidden: FloatTensor<Self>,
        weight2: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        of_second: bool,
        curve: Gelu,
    ) -> (
        FloatTensor<Self>,
        Option<FloatTensor<Self>>,
        Option<FloatTensor<Self>>,
        Option<FloatTensor<Self>>,
        Option<FloatTensor<Self>>,
    ) {
        composed_backward::<Self>(x.get(), [weight1, weight2], hidden, grad, of_second, curve)
    }
}

/// The gradients of x, W1, b1, W2 and b2.
type Gradients<B> = (
    FloatTensor<B>,
    Option<FloatTensor<B>>,
    Option<FloatTensor<B>>,
    Option<FloatTensor<B>>,
    Option<FloatTensor<B>>,
);

#[cfg(feature = "cube")]
impl MlpOps for burn_cubecl::CubeBackend {}

impl<B: MlpOps, C: CheckpointStrategy> MlpOps for Autodiff<B, C> {
    fn gelu_mlp(
        x: FloatTensor<Self>,
        weight1: FloatTensor<Self>,
        bias1: FloatTensor<Self>,
        weight2: FloatTensor<Self>,
        bias2: FloatTensor<Self>,
        residual: Optional<Self>,
        curve: Gelu,
    ) -> FloatTensor<Self> {
        let residual = residual.get();
        let layers = [&weight1, &bias1, &weight2, &bias2];
        let is_f32 = |x: &FloatTensor<Self>| x.dtype() == DType::F32;
        let is_one_step = matches!(x.dtype(), DType::F32 | DType::BF16)
            && layers.into_iter().chain(&residual).all(is_f32);
        let [of_x, of_first, of_second] = [
            x.is_tracked(),
            weight1.is_tracked() || bias1.is_tracked(),
            weight2.is_tracked() || bias2.is_tracked(),
        ];
        if !is_one_step || !(of_x || of_first || of_second) {
            // Operations that record themselves.
            let layers = [[weight1, bias1], [weight2, bias2]];
            return composed::<Self>(x, layers, Optional::of(residual), curve).0;
        }
        let (nodes, given) = split([x, weight1, bias1, weight2, bias2]);
        let (
            [of_x, of_weight1, of_bias1, of_weight2, of_bias2],
            [x, weight1, bias1, weight2, bias2],
        ) = (nodes, given);
        let (of_residual, residual) = split_optional::<B>(residual, &x);
        let nodes = [
            of_x,
            of_weight1,
            of_bias1,
            of_weight2,
            of_bias2,
            of_residual,
        ];
        let (out, hidden) = B::gelu_mlp_kept(
            x.clone(),
            weight1.clone(),
            bias1,
            weight2.clone(),
            bias2,
            Optional::of(residual),
            curve,
        );
        // Only the gradients of the first layer need x.
        let x = of_first.then_some(x);
        let state = (x, weight1, hidden, weight2, (of_second, curve));
        record_asked::<B, C, _, _>(
            nodes,
            out,
            state,
            |(x, weight1, hidden, weight2, (of_second, curve)), grad, asked| {
                let residual = asked[5].then(|| grad.clone());
                let x = Optional::<B>::of(x);
                let (x, weight1, bias1, weight2, bias2) =
                    B::gelu_mlp_backward(x, weight1, hidden, weight2, grad, of_second, curve);
                [Some(x), weight1, bias1, weight2, bias2, residual]
            },
        )
    }
}

/// [`MlpOps::gelu_mlp_kept`] of two linear layers and a GELU.
fn composed<B: LinearOps + GeluOps>(
    x: FloatTensor<B>,
    [[weight1, bias1], [weight2, bias2]]: [[FloatTensor<B>; 2]; 2],
    residual: Optional<B>,
    curve: Gelu,
) -> (FloatTensor<B>, FloatTensor<B>) {
    let hidden = B::affine(x, weight1, bias1, Optional::Missing);
    let inner = B::gelu_by(hidden.clone(), curve);
    (B::affine(inner, weight2, bias2, residual), hidden)
}

/// [`MlpOps::gelu_mlp_backward`] of the same operations.
fn composed_backward<B: LinearOps + GeluOps>(
    x: Option<FloatTensor<B>>,
    [weight1, weight2]: [FloatTensor<B>; 2],
    hidden: FloatTensor<B>,
    grad: FloatTensor<B>,
    of_second: bool,
    curve: Gelu,
) -> Gradients<B> {
    let (dtype, of_first) = (FloatDType::from(hidden.dtype()), x.is_some());
    let inner = of_second.then(|| B::gelu_by(hidden.clone(), curve));
    let inner = Optional::<B>::of(inner);
    let (grad, weight2, bias2) = B::affine_backward(inner, weight2, grad, dtype, of_second);
    let grad = B::gelu_by_backward(hidden, grad, curve);
    let x = Optional::<B>::of(x);
    let (x, weight1, bias1) = B::affine_backward(x, weight1, grad, dtype, of_first);
    (x, weight1, bias1, weight2, bias2)
}

/// Two linear layers with a GELU between them, added to a residual if there is one, on any device: the result of
/// `linear_add(second, gelu(linear(first, x)), residual)`, or with [`quick_gelu`](crate::quick_gelu).
///
/// # Shapes
/// - `x`: `[.., input]`
/// - `residual` and output: `[.., output]`, as in [`linear_add`]
///
/// # Panics
/// As [`linear`] and [`linear_add`].
pub fn mlp<const D: usize>(
    [first, second]: [&Linear; 2],
    curve: Gelu,
    x: Tensor<D>,
    residual: Option<Residual<D>>,
) -> Tensor<D> {
    let [bias1, bias2] = [first, second].map(|layer| layer.bias.as_ref().map(Param::val));
    let [weight1, weight2] = [first, second].map(|layer| layer.weight.val());
    let mut shape = x.dims();
    shape[D - 1] = weight2.dims()[1];
    let has_width = |bias: &Option<Tensor<1>>, weight: &Tensor<2>| {
        let fits = |bias: &Tensor<1>| bias.dims()[0] == weight.dims()[1];
        bias.as_ref().is_none_or(fits)
    };
    let is_one_step = x.device() == Device::flex()
        && has_width(&bias1, &weight1)
        && has_width(&bias2, &weight2)
        && fits(&x, &weight1)
        && weight1.dims()[1] == weight2.dims()[0];
    let (Some(bias1), Some(bias2), true) = (bias1, bias2, is_one_step) else {
        let hidden = linear(first, x).into_dispatch();
        let inner = Tensor::from_dispatch(Dispatch::gelu_by(hidden, curve));
        return match residual {
            Some(residual) => linear_add(second, inner, residual),
            None => linear(second, inner),
        };
    };
    // A residual that is scaled or broadcast is a step of its own.
    let is_inside =
        |residual: &mut Residual<D>| residual.scale.is_none() && residual.stream.dims() == shape;
    let mut outside = residual;
    let inside = match outside.take_if(is_inside) {
        Some(residual) => Optional::Given(residual.stream.into_dispatch()),
        None => Optional::Missing,
    };
    let [weight1, weight2] = [weight1, weight2].map(Tensor::into_dispatch);
    let [bias1, bias2] = [bias1, bias2].map(Tensor::into_dispatch);
    let x = x.into_dispatch();
    let out = Dispatch::gelu_mlp(x, weight1, bias1, weight2, bias2, inside, curve);
    let out = Tensor::from_dispatch(out);
    match outside {
        Some(residual) => residual.plus(out),
        None => out,
    }
}
