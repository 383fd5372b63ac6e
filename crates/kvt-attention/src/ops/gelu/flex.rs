//! GELU on the CPU: vectorised for the CPU found at run time, spread over the threads.

use burn::backend::{Flex, ops::FloatTensorOps, tensor::FloatTensor};
use burn::tensor::{DType, FloatDType};
use pulp::Arch;
use rayon::prelude::*;

use super::GeluOps;
use crate::ops::math::exp;

/// Values handed to a thread at once.
const BLOCK: usize = 16 * 1024;

impl GeluOps for Flex {
    fn exact_gelu(x: FloatTensor<Self>) -> FloatTensor<Self> {
        let dtype = x.dtype();
        if dtype != DType::F32 {
            let wide = Self::float_cast(x, FloatDType::F32);
            return Self::float_cast(Self::exact_gelu(wide), dtype.into());
        }
        // In place where nobody else holds `x`, else into a copy.
        let mut x = x.to_contiguous();
        let arch = Arch::new();
        x.storage_mut::<f32>()
            .par_chunks_mut(BLOCK)
            .for_each(|block| {
                arch.dispatch(|| {
                    for x in block {
                        *x *= normal(*x).0;
                    }
                });
            });
        x
    }

    fn exact_gelu_backward(x: FloatTensor<Self>, grad: FloatTensor<Self>) -> FloatTensor<Self> {
        let dtype = x.dtype();
        if dtype != DType::F32 {
            let x = Self::float_cast(x, FloatDType::F32);
            let grad = Self::float_cast(grad, FloatDType::F32);
            return Self::float_cast(Self::exact_gelu_backward(x, grad), dtype.into());
        }
        let x = x.to_contiguous();
        let mut grad = grad.to_contiguous();
        let arch = Arch::new();
        grad.storage_mut::<f32>()
            .par_chunks_mut(BLOCK)
            .zip(x.storage::<f32>().par_chunks(BLOCK))
            .for_each(|(grad, x)| {
                arch.dispatch(|| {
                    for (grad, &x) in grad.iter_mut().zip(x) {
                        let (cumulative, density) = normal(x);
                        *grad *= cumulative + x * density;
                    }
                });
            });
        grad
    }
}

/// `Phi(x)` to within 1e-7, and the density `phi(x)`.
///
/// Abramowitz & Stegun 7.1.26: `erfc(z) = t (a1 + t (a2 + ...)) e^{-z^2}` with `t = 1 / (1 + p z)`,
/// taken on the side where it does not cancel.
#[inline(always)]
fn normal(x: f32) -> (f32, f32) {
    const INV_SQRT_2: f32 = std::f32::consts::FRAC_1_SQRT_2;
    const INV_SQRT_2PI: f32 = 0.398_942_3;
    let z = x.abs() * INV_SQRT_2;
    let bell = exp(-z * z);
    let t = 1.0 / (1.0 + 0.327_591_1 * z);
    let p = 1.061_405_4;
    let p = p * t - 1.453_152;
    let p = p * t + 1.421_413_8;
    let p = p * t - 0.284_496_72;
    let p = p * t + 0.254_829_6;
    let upper = 0.5 * p * t * bell;
    let cumulative = if x < 0.0 { upper } else { 1.0 - upper };
    (cumulative, bell * INV_SQRT_2PI)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distribution_function_matches_a_table() {
        // Phi(x) to 10 digits.
        for (x, expected) in [
            (-4.0, 3.167_124_18e-5),
            (-1.0, 0.158_655_253_9),
            (-0.5, 0.308_537_538_7),
            (0.0, 0.5),
            (0.5, 0.691_462_461_3),
            (1.0, 0.841_344_746_1),
            (2.0, 0.977_249_868_1),
            (6.0, 0.999_999_999_0),
        ] {
            let actual = f64::from(normal(x).0);
            assert!(
                (actual - expected).abs() < 2e-7,
                "{x}: {actual} is not {expected}"
            );
        }
    }

    #[test]
    fn extremes_do_not_overflow() {
        assert_eq!(normal(f32::INFINITY), (1.0, 0.0));
        assert_eq!(normal(f32::NEG_INFINITY), (0.0, 0.0));
        assert!(normal(f32::NAN).0.is_nan());
    }
}
