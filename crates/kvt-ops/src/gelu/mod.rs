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

pub(crate) use cpu::{
    gelu_and_gradient, gelu_and_gradient_bf16, gelu_bf16, gelu_in_place, multiply_by_slope,
};

/// The factor in the sigmoid of [`quick_gelu`].
const QUICK: f64 = 1.702;

/// Which GELU, `x F(x)`: by its distribution function `F`.
#[derive(Clone, Copy, Debug)]
pub enum Gelu {
    /// The normal distribution function `Phi`.
    Exact,
    /// `sigmoid(1.702 x)`.
    Quick,
}

impl Gelu {
    /// `Phi(x) = (1 + erf(x / sqrt 2)) / 2`, or `sigmoid(1.702 x)`.
    fn cdf<B: Backend>(self, x: FloatTensor<B>) -> FloatTensor<B> {
        match self {
            Self::Exact => {
                let erf = B::float_erf(B::float_mul_scalar(x, FRAC_1_SQRT_2.into()));
                B::float_mul_scalar(B::float_add_scalar(erf, 1.0.into()), 0.5.into())
            }
            Self::Quick => B::sigmoid(B::float_mul_scalar(x, QUICK.into())),
        }
    }
}

/// GELU on a backend; the default implementations are composed of Burn's operations.
#[backend_extension(Cube: cfg(feature = "cube"), Flex, Capture: cfg(feature = "export"), Autodiff, Fusion: cfg(feature = "cube"))]
pub(crate) trait GeluOps: ConvertOps {
    /// `x F(x)`; half types are computed in f32, since `1 + erf(x)` cancels.
    #[fusion(default)]
    fn gelu_by(x: FloatTensor<Self>, curve: Gelu) -> FloatTensor<Self> {
        let dtype = x.dtype();
        let x = widened_primitive::<Self>(x);
        let out = Self::float_mul(x.clone(), curve.cdf::<Self>(x));
        cast::<Self>(out, dtype)
    }

    /// `grad (F(x) + x F'(x))`: `grad (Phi(x) + x phi(x))` with the normal density `phi`, or `grad (s + 1.702 x s (1 - s))` with
    /// `s = sigmoid(1.702 x)`.
    #[fusion(default)]
    fn gelu_by_backward(
        x: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        curve: Gelu,
    ) -> FloatTensor<Self> {
        let dtype = x.dtype();
        let [x, grad] = [x, grad].map(widened_primitive::<Self>);
        let slope = match curve {
            Gelu::Exact => {
                let square = Self::float_mul(x.clone(), x.clone());
                let bell = Self::float_exp(Self::float_mul_scalar(square, (-0.5).into()));
                let factor = 0.5 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2;
                let pdf = Self::float_mul_scalar(bell, factor.into());
                let slope = Self::float_mul(x.clone(), pdf);
                Self::float_add(curve.cdf::<Self>(x), slope)
            }
            Gelu::Quick => {
                let cdf = curve.cdf::<Self>(x.clone());
                let rest = Self::float_add_scalar(Self::float_neg(cdf.clone()), 1.0.into());
                let scaled = Self::float_mul_scalar(x, QUICK.into());
                let slope = Self::float_add_scalar(Self::float_mul(scaled, rest), 1.0.into());
                Self::float_mul(cdf, slope)
            }
        };
        cast::<Self>(Self::float_mul(grad, slope), dtype)
    }
}

#[cfg(feature = "cube")]
impl GeluOps for burn_cubecl::CubeBackend {}

impl<B: GeluOps, C: CheckpointStrategy> GeluOps for Autodiff<B, C> {
    fn gelu_by(x: FloatTensor<Self>, curve: Gelu) -> FloatTensor<Self> {
        let (node, [x]) = split([x]);
        let out = B::gelu_by(x.clone(), curve);
        record::<B, C, _, _>(node, out, (x, curve), |(x, curve), grad| {
            [B::gelu_by_backward(x, grad, curve)]
        })
    }
}

/// GELU with the exact error function, `x Phi(x)`, on any device. The CPU computes in f32, even for f64.
pub fn gelu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    Tensor::from_dispatch(Dispatch::gelu_by(x.into_dispatch(), Gelu::Exact))
}

/// GELU with a sigmoid, `x sigmoid(1.702 x)`, on any device. The CPU computes in f32, even for f64.
pub fn quick_gelu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    Tensor::from_dispatch(Dispatch::gelu_by(x.into_dispatch(), Gelu::Quick))
}
