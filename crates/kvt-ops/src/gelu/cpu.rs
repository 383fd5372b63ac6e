//! GELU on the CPU: SIMD on all threads.

use burn::backend::{Flex, TensorMetadata, tensor::FloatTensor};
use burn::tensor::{DType, bf16};
use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::GeluOps;
use crate::cast::{cast, to_f32};
use crate::cpu::buffer::{
    nothing, par_build_of, par_map_copy, tensor, tensor_of, values_in, values_of,
};
use crate::cpu::round::copy;
use crate::cpu::simd::exp;

/// Values per block.
const BLOCK: usize = 16 * 1024;

impl GeluOps for Flex {
    fn exact_gelu(x: FloatTensor<Self>) -> FloatTensor<Self> {
        if x.dtype() == DType::BF16 {
            return bf16_gelu(&x.to_contiguous());
        }
        let (dtype, shape) = (x.dtype(), x.shape());
        let x = to_f32::<Self>(x).to_contiguous();
        let x = values_of(&x);
        let arch = Arch::new();
        let out = par_map_copy(x, BLOCK, nothing(x.len(), BLOCK), |block, ()| {
            arch.dispatch(Forward(block));
        });
        cast::<Self>(tensor(out, shape), dtype)
    }

    fn exact_gelu_backward(x: FloatTensor<Self>, grad: FloatTensor<Self>) -> FloatTensor<Self> {
        if [x.dtype(), grad.dtype()] == [DType::BF16; 2] {
            return bf16_gelu_backward(&x.to_contiguous(), &grad.to_contiguous());
        }
        let (dtype, shape) = (x.dtype(), x.shape());
        let [x, grad] = [x, grad].map(|x| to_f32::<Self>(x).to_contiguous());
        let arch = Arch::new();
        let x = values_of(&x).par_chunks(BLOCK);
        let out = par_map_copy(values_of(&grad), BLOCK, x, |grad, x| {
            arch.dispatch(Backward { grad, x });
        });
        cast::<Self>(tensor(out, shape), dtype)
    }
}

/// Widens a block in the cache, and rounds it when it is written.
fn bf16_gelu(x: &FloatTensor<Flex>) -> FloatTensor<Flex> {
    let values: &[bf16] = values_in(x);
    let blocks = values.par_chunks(BLOCK);
    let scratch = || vec![0.0; BLOCK];
    let out = par_build_of(values.len(), BLOCK, blocks, scratch, |block, out, x| {
        let block = &mut block[..x.len()];
        copy(x, block);
        Arch::new().dispatch(Forward(block));
        copy::<f32, bf16>(block, out);
    });
    tensor_of(out, x.shape())
}

/// As [`bf16_gelu`].
fn bf16_gelu_backward(x: &FloatTensor<Flex>, grad: &FloatTensor<Flex>) -> FloatTensor<Flex> {
    let [values, grads]: [&[bf16]; 2] = [x, grad].map(values_in);
    let blocks = values.par_chunks(BLOCK).zip(grads.par_chunks(BLOCK));
    let scratch = || [vec![0.0; BLOCK], vec![0.0; BLOCK]];
    let out = par_build_of(
        values.len(),
        BLOCK,
        blocks,
        scratch,
        |blocks, out, (x, grad)| {
            let [x_block, grad_block] = blocks.each_mut().map(|block| &mut block[..x.len()]);
            copy(x, x_block);
            copy(grad, grad_block);
            Arch::new().dispatch(Backward {
                grad: grad_block,
                x: x_block,
            });
            copy::<f32, bf16>(grad_block, out);
        },
    );
    tensor_of(out, x.shape())
}

/// `x <- x Phi(x)`
struct Forward<'a>(&'a mut [f32]);

impl WithSimd for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (main, rest) = S::as_mut_simd_f32s(self.0);
        for x in main {
            *x = simd.mul_f32s(*x, normal_cdf_pdf(simd, *x).0);
        }
        let x = simd.partial_load_f32s(rest);
        simd.partial_store_f32s(rest, simd.mul_f32s(x, normal_cdf_pdf(simd, x).0));
    }
}

/// `grad <- grad (Phi(x) + x phi(x))`
struct Backward<'a> {
    grad: &'a mut [f32],
    x: &'a [f32],
}

impl WithSimd for Backward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (x_main, x_rest) = S::as_simd_f32s(self.x);
        let (grad_main, grad_rest) = S::as_mut_simd_f32s(self.grad);
        for (grad, x) in grad_main.iter_mut().zip(x_main) {
            *grad = simd.mul_f32s(*grad, slope(simd, *x));
        }
        let slope = slope(simd, simd.partial_load_f32s(x_rest));
        let grad = simd.partial_load_f32s(grad_rest);
        simd.partial_store_f32s(grad_rest, simd.mul_f32s(grad, slope));
    }
}

/// The derivative `Phi(x) + x phi(x)`.
#[inline(always)]
fn slope<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let (cdf, pdf) = normal_cdf_pdf(simd, x);
    simd.mul_add_f32s(x, pdf, cdf)
}

/// `Phi(x)` with an error of at most 1e-7, and the density `phi(x)`.
///
/// Abramowitz & Stegun 7.1.26: `erfc(z) = t (a1 + t (a2 + ...)) e^{-z^2}` with `t = 1 / (1 + p z)`, for `z >= 0`, where
/// there is no cancellation.
#[inline(always)]
fn normal_cdf_pdf<S: Simd>(simd: S, x: S::f32s) -> (S::f32s, S::f32s) {
    const INV_SQRT_2: f32 = std::f32::consts::FRAC_1_SQRT_2;
    const INV_SQRT_2PI: f32 = 0.398_942_3;
    let all = |value: f32| simd.splat_f32s(value);
    // pulp does not inline its `abs` and `neg`.
    let minus = |x| simd.sub_f32s(all(0.0), x);
    let z = simd.mul_f32s(simd.max_f32s(minus(x), x), all(INV_SQRT_2));
    let bell = exp(simd, minus(simd.mul_f32s(z, z)));
    let t = simd.div_f32s(all(1.0), simd.mul_add_f32s(z, all(0.327_591_1), all(1.0)));
    let mut p = all(1.061_405_4);
    for coefficient in [-1.453_152, 1.421_413_8, -0.284_496_72, 0.254_829_6] {
        p = simd.mul_add_f32s(p, t, all(coefficient));
    }
    let half = simd.mul_f32s(all(0.5), simd.mul_f32s(p, t));
    let upper = simd.mul_f32s(half, bell);
    let negative = simd.less_than_f32s(x, all(0.0));
    let cdf = simd.select_f32s(negative, upper, simd.sub_f32s(all(1.0), upper));
    (cdf, simd.mul_f32s(bell, all(INV_SQRT_2PI)))
}

#[cfg(test)]
mod tests {
    use pulp::Scalar;

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
            let actual = f64::from(normal_cdf_pdf(Scalar, x).0);
            assert!(
                (actual - expected).abs() < 2e-7,
                "{x}: {actual} is not {expected}"
            );
        }
    }

    #[test]
    fn extremes_do_not_overflow() {
        for (x, expected) in [(f32::INFINITY, 1.0), (f32::NEG_INFINITY, 0.0)] {
            let (cdf, pdf) = normal_cdf_pdf(Scalar, x);
            assert_eq!(cdf, expected);
            assert!(pdf < 1e-37);
        }
        assert!(normal_cdf_pdf(Scalar, f32::NAN).0.is_nan());
    }
}
