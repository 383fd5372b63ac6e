//! GELU (Hendrycks & Gimpel, 2016) with the exact error function, `x Phi(x)`, and with a sigmoid in its place,
//! `x sigmoid(1.702 x)`, each with its exact gradient.
//!
//! On GPUs, Burn's GELU uses the gradient of the tanh approximation; on the CPU, it uses a scalar `erf` on one thread, and
//! a scalar exponential for the sigmoid. Here GPUs compose both of operations that Burn fuses, and the CPU has a vectorised loop.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::{
    Autodiff, Backend, Dispatch, TensorMetadata, backend_extension, tensor::FloatTensor,
};
use burn::tensor::Tensor;

use crate::autodiff::{record, split};
use crate::cast::{cast, widened_primitive};
use crate::convert::ConvertOps;

mod cpu;

pub(crate) use cpu::{exact, exact_bf16};

/// The factor in the sigmoid of [`quick_gelu`].
const QUICK: f64 = 1.702;

/// GELU on a backend; the default implementations are composed of Burn's operations.
#[backend_extension(Cube: cfg(feature = "cube"), Flex, Capture: cfg(feature = "export"), Autodiff, Fusion: cfg(feature = "cube"))]
pub(crate) trait GeluOps: ConvertOps {
    /// `x Phi(x)` with the normal distribution function `Phi`; half types are computed in f32, since `1 + erf(x)` cancels.
    #[fusion(default)]
    fn exact_gelu(x: FloatTensor<Self>) -> FloatTensor<Self> {
        let dtype = x.dtype();
        let x = widened_primitive::<Self>(x);
        let out = Self::float_mul(x.clone(), normal_cdf::<Self>(x));
        cast::<Self>(out, dtype)
    }

    /// `grad (Phi(x) + x phi(x))` with the normal density `phi`.
    #[fusion(default)]
    fn exact_gelu_backward(x: FloatTensor<Self>, grad: FloatTensor<Self>) -> FloatTensor<Self> {
        let dtype = x.dtype();
        let [x, grad] = [x, grad].map(widened_primitive::<Self>);
        let square = Self::float_mul(x.clone(), x.clone());
        let bell = Self::float_exp(Self::float_mul_scalar(square, (-0.5).into()));
        let pdf = Self::float_mul_scalar(bell, (0.5 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2).into());
        let slope = Self::float_mul(x.clone(), pdf);
        let slope = Self::float_add(normal_cdf::<Self>(x), slope);
        cast::<Self>(Self::float_mul(grad, slope), dtype)
    }

    /// `x sigmoid(1.702 x)`; half types are computed in f32.
    #[fusion(default)]
    fn quick_gelu(x: FloatTensor<Self>) -> FloatTensor<Self> {
        let dtype = x.dtype();
        let x = widened_primitive::<Self>(x);
        let out = Self::float_mul(x.clone(), quick_cdf::<Self>(x));
        cast::<Self>(out, dtype)
    }

    /// `grad (s + 1.702 x s (1 - s))` with `s = sigmoid(1.702 x)`.
    #[fusion(default)]
    fn quick_gelu_backward(x: FloatTensor<Self>, grad: FloatTensor<Self>) -> FloatTensor<Self> {
        let dtype = x.dtype();
        let [x, grad] = [x, grad].map(widened_primitive::<Self>);
        let cdf = quick_cdf::<Self>(x.clone());
        let rest = Self::float_add_scalar(Self::float_neg(cdf.clone()), 1.0.into());
        let scaled = Self::float_mul_scalar(x, QUICK.into());
        let slope = Self::float_add_scalar(Self::float_mul(scaled, rest), 1.0.into());
        let slope = Self::float_mul(cdf, slope);
        cast::<Self>(Self::float_mul(grad, slope), dtype)
    }
}

#[cfg(feature = "cube")]
impl GeluOps for burn_cubecl::CubeBackend {}

impl<B: GeluOps, C: CheckpointStrategy> GeluOps for Autodiff<B, C> {
    fn exact_gelu(x: FloatTensor<Self>) -> FloatTensor<Self> {
        let (node, [x]) = split([x]);
        let out = B::exact_gelu(x.clone());
        record::<B, C, _, _>(node, out, x, |x, grad| [B::exact_gelu_backward(x, grad)])
    }

    fn quick_gelu(x: FloatTensor<Self>) -> FloatTensor<Self> {
        let (node, [x]) = split([x]);
        let out = B::quick_gelu(x.clone());
        record::<B, C, _, _>(node, out, x, |x, grad| [B::quick_gelu_backward(x, grad)])
    }
}

/// `Phi(x) = (1 + erf(x / sqrt 2)) / 2`
fn normal_cdf<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    let erf = B::float_erf(B::float_mul_scalar(x, FRAC_1_SQRT_2.into()));
    B::float_mul_scalar(B::float_add_scalar(erf, 1.0.into()), 0.5.into())
}

/// `sigmoid(1.702 x)`
fn quick_cdf<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    B::sigmoid(B::float_mul_scalar(x, QUICK.into()))
}

/// GELU with the exact error function, `x Phi(x)`, on any device. The CPU computes in f32, even for f64.
pub fn gelu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    Tensor::from_dispatch(Dispatch::exact_gelu(x.into_dispatch()))
}

/// GELU with a sigmoid, `x sigmoid(1.702 x)`, on any device. The CPU computes in f32, even for f64.
pub fn quick_gelu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    Tensor::from_dispatch(Dispatch::quick_gelu(x.into_dispatch()))
}
