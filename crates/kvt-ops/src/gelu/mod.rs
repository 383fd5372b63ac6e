//! GELU with the exact error function, `x Phi(x)`, and its exact gradient.
//!
//! Burn's own has the gradient of the tanh approximation outside the flex backend, and on flex a
//! scalar `erf` on one thread. Here the GPU runtimes compose it of operations that Burn fuses, and
//! the CPU has a vectorised loop.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

use burn::backend::{Backend, Dispatch, backend_extension, tensor::FloatTensor};
use burn::tensor::Tensor;

mod autodiff;
mod flex;

#[cfg(feature = "cube")]
impl GeluOps for burn_cubecl::CubeBackend {}

/// What a backend provides for GELU. The defaults are composed of Burn's own operations.
#[backend_extension(Cube: cfg(feature = "cube"), Flex, Autodiff, Fusion: cfg(feature = "cube"))]
pub trait GeluOps: Backend {
    /// `x Phi(x)` with the normal distribution function `Phi`.
    #[fusion(default)]
    fn exact_gelu(x: FloatTensor<Self>) -> FloatTensor<Self> {
        Self::float_mul(x.clone(), cumulative::<Self>(x))
    }

    /// `grad (Phi(x) + x phi(x))` with the normal density `phi`.
    #[fusion(default)]
    fn exact_gelu_backward(x: FloatTensor<Self>, grad: FloatTensor<Self>) -> FloatTensor<Self> {
        let square = Self::float_mul(x.clone(), x.clone());
        let bell = Self::float_exp(Self::float_mul_scalar(square, (-0.5).into()));
        let density = Self::float_mul_scalar(bell, (0.5 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2).into());
        let slope = Self::float_mul(x.clone(), density);
        Self::float_mul(grad, Self::float_add(cumulative::<Self>(x), slope))
    }
}

/// `Phi(x) = (1 + erf(x / sqrt 2)) / 2`
fn cumulative<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    let erf = B::float_erf(B::float_mul_scalar(x, FRAC_1_SQRT_2.into()));
    B::float_mul_scalar(B::float_add_scalar(erf, 1.0.into()), 0.5.into())
}

/// `x Phi(x)`, GELU with the exact error function, on any device. The CPU computes in f32, also where x is f64.
pub fn gelu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    Tensor::from_dispatch(Dispatch::exact_gelu(x.into_dispatch()))
}
