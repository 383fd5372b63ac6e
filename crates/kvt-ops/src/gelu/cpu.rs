//! GELU on the CPU: SIMD on all threads.

use std::marker::PhantomData;

use burn::backend::{Flex, TensorMetadata, tensor::FloatTensor};
use burn::tensor::{DType, bf16};
use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::{GeluOps, QUICK};
use crate::cast::{cast, to_f32};
use crate::contiguous::cpu::contiguous;
use crate::cpu::buffer::{par_map_copy, par_write_with, tensor, tensor_of, values_in, values_of};
use crate::cpu::round::{copy, copy_new};
use crate::cpu::simd::exp;

/// Values per block.
const BLOCK: usize = 16 * 1024;

impl GeluOps for Flex {
    fn exact_gelu(x: FloatTensor<Self>) -> FloatTensor<Self> {
        forward::<Exact>(x)
    }

    fn exact_gelu_backward(x: FloatTensor<Self>, grad: FloatTensor<Self>) -> FloatTensor<Self> {
        backward::<Exact>(x, grad)
    }

    fn quick_gelu(x: FloatTensor<Self>) -> FloatTensor<Self> {
        forward::<Quick>(x)
    }

    fn quick_gelu_backward(x: FloatTensor<Self>, grad: FloatTensor<Self>) -> FloatTensor<Self> {
        backward::<Quick>(x, grad)
    }
}

/// An activation `x F(x)` with a distribution function F.
trait Curve {
    /// `F(x)`, and `F'(x)`.
    fn cdf_pdf<S: Simd>(simd: S, x: S::f32s) -> (S::f32s, S::f32s);
}

/// With the normal distribution.
struct Exact;

impl Curve for Exact {
    /// `Phi(x)` with an error of at most 1e-7, and the density `phi(x)`.
    ///
    /// Abramowitz & Stegun 7.1.26: `erfc(z) = t (a1 + t (a2 + ...)) e^{-z^2}` with `t = 1 / (1 + p z)`, for `z >= 0`, where
    /// there is no cancellation.
    #[inline(always)]
    fn cdf_pdf<S: Simd>(simd: S, x: S::f32s) -> (S::f32s, S::f32s) {
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
}

/// With `sigmoid(1.702 x)`.
struct Quick;

impl Curve for Quick {
    /// `s = sigmoid(1.702 x)`, and its derivative `1.702 s (1 - s)`.
    #[inline(always)]
    fn cdf_pdf<S: Simd>(simd: S, x: S::f32s) -> (S::f32s, S::f32s) {
        let all = |value: f32| simd.splat_f32s(value);
        let minus = |x| simd.sub_f32s(all(0.0), x);
        // With `e = e^{-1.702 |x|}`, which cannot overflow, s is `1 / (1 + e)` or `e / (1 + e)`.
        let size = simd.max_f32s(minus(x), x);
        let e = exp(simd, simd.mul_f32s(size, all(-(QUICK as f32))));
        let upper = simd.div_f32s(all(1.0), simd.add_f32s(all(1.0), e));
        let lower = simd.mul_f32s(e, upper);
        let negative = simd.less_than_f32s(x, all(0.0));
        let s = simd.select_f32s(negative, lower, upper);
        let slope = simd.mul_f32s(all(QUICK as f32), simd.mul_f32s(upper, lower));
        (s, slope)
    }
}

fn forward<F: Curve>(x: FloatTensor<Flex>) -> FloatTensor<Flex> {
    if x.dtype() == DType::BF16 {
        return bf16_forward::<F>(&x.to_contiguous());
    }
    let (dtype, shape) = (x.dtype(), x.shape());
    let x = contiguous(to_f32::<Flex>(x));
    let x = values_of(&x);
    let arch = Arch::new();
    let numbers = (0..x.len().div_ceil(BLOCK)).into_par_iter();
    let out = par_map_copy(x, BLOCK, numbers, |block, _| {
        arch.dispatch(Forward::<F>(block, PhantomData));
    });
    cast::<Flex>(tensor(out, shape), dtype)
}

fn backward<F: Curve>(x: FloatTensor<Flex>, grad: FloatTensor<Flex>) -> FloatTensor<Flex> {
    if [x.dtype(), grad.dtype()] == [DType::BF16; 2] {
        return bf16_backward::<F>(&x.to_contiguous(), &grad.to_contiguous());
    }
    let (dtype, shape) = (x.dtype(), x.shape());
    let [x, grad] = [x, grad].map(|x| contiguous(to_f32::<Flex>(x)));
    let arch = Arch::new();
    let x = values_of(&x).par_chunks(BLOCK);
    let out = par_map_copy(values_of(&grad), BLOCK, x, |grad, x| {
        arch.dispatch(Backward::<F>::new(grad, x));
    });
    cast::<Flex>(tensor(out, shape), dtype)
}

/// GELU of values, in place, on this thread.
pub(crate) fn exact(values: &mut [f32]) {
    Arch::new().dispatch(Forward::<Exact>(values, PhantomData));
}

/// As [`exact`]; computed in f32, and rounded when it is written.
pub(crate) fn exact_bf16(values: &mut [bf16]) {
    let mut block = [0.0; 1024];
    for values in values.chunks_mut(block.len()) {
        let block = &mut block[..values.len()];
        copy::<bf16, f32>(values, block);
        exact(block);
        copy::<f32, bf16>(block, values);
    }
}

/// Widens a block in the cache, and rounds it when it is written.
fn bf16_forward<F: Curve>(x: &FloatTensor<Flex>) -> FloatTensor<Flex> {
    let values: &[bf16] = values_in(x);
    let blocks = values.par_chunks(BLOCK);
    let scratch = || vec![0.0; BLOCK];
    let out = par_write_with(values.len(), BLOCK, blocks, scratch, |block, out, x| {
        let block = &mut block[..x.len()];
        copy(x, block);
        Arch::new().dispatch(Forward::<F>(block, PhantomData));
        copy_new::<f32, bf16>(block, out)
    });
    tensor_of(out, x.shape())
}

/// As [`bf16_forward`].
fn bf16_backward<F: Curve>(x: &FloatTensor<Flex>, grad: &FloatTensor<Flex>) -> FloatTensor<Flex> {
    let [values, grads]: [&[bf16]; 2] = [x, grad].map(values_in);
    let blocks = values.par_chunks(BLOCK).zip(grads.par_chunks(BLOCK));
    let scratch = || [vec![0.0; BLOCK], vec![0.0; BLOCK]];
    let out = par_write_with(
        values.len(),
        BLOCK,
        blocks,
        scratch,
        |blocks, out, (x, grad)| {
            let [x_block, grad_block] = blocks.each_mut().map(|block| &mut block[..x.len()]);
            copy(x, x_block);
            copy(grad, grad_block);
            Arch::new().dispatch(Backward::<F>::new(grad_block, x_block));
            copy_new::<f32, bf16>(grad_block, out)
        },
    );
    tensor_of(out, x.shape())
}

/// `x <- x F(x)`
struct Forward<'a, F>(&'a mut [f32], PhantomData<F>);

impl<F: Curve> WithSimd for Forward<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (main, rest) = S::as_mut_simd_f32s(self.0);
        for x in main {
            *x = simd.mul_f32s(*x, F::cdf_pdf(simd, *x).0);
        }
        let x = simd.partial_load_f32s(rest);
        simd.partial_store_f32s(rest, simd.mul_f32s(x, F::cdf_pdf(simd, x).0));
    }
}

/// `grad <- grad (F(x) + x F'(x))`
struct Backward<'a, F> {
    grad: &'a mut [f32],
    x: &'a [f32],
    curve: PhantomData<F>,
}

impl<'a, F> Backward<'a, F> {
    fn new(grad: &'a mut [f32], x: &'a [f32]) -> Self {
        let curve = PhantomData;
        Self { grad, x, curve }
    }
}

impl<F: Curve> WithSimd for Backward<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (x_main, x_rest) = S::as_simd_f32s(self.x);
        let (grad_main, grad_rest) = S::as_mut_simd_f32s(self.grad);
        for (grad, x) in grad_main.iter_mut().zip(x_main) {
            *grad = simd.mul_f32s(*grad, slope::<S, F>(simd, *x));
        }
        let slope = slope::<S, F>(simd, simd.partial_load_f32s(x_rest));
        let grad = simd.partial_load_f32s(grad_rest);
        simd.partial_store_f32s(grad_rest, simd.mul_f32s(grad, slope));
    }
}

/// The derivative `F(x) + x F'(x)`.
#[inline(always)]
fn slope<S: Simd, F: Curve>(simd: S, x: S::f32s) -> S::f32s {
    let (cdf, pdf) = F::cdf_pdf(simd, x);
    simd.mul_add_f32s(x, pdf, cdf)
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
            let actual = f64::from(Exact::cdf_pdf(Scalar, x).0);
            assert!(
                (actual - expected).abs() < 2e-7,
                "{x}: {actual} is not {expected}"
            );
        }
    }

    #[test]
    fn the_sigmoid_and_its_slope_match_a_table() {
        // s and 1.702 s (1 - s) with s = 1 / (1 + exp(-1.702 x)), in double precision.
        for (x, expected, slope) in [
            (-4.0, 1.103_681e-3, 1.876_391_9e-3),
            (-0.5, 0.299_223_13, 0.356_890_08),
            (0.0, 0.5, 0.425_5),
            (1.0, 0.845_795_77, 0.221_983_84),
            (6.0, 0.999_963_3, 6.250_466e-5),
        ] {
            let (s, actual) = Quick::cdf_pdf(Scalar, x);
            assert!((s - expected).abs() < 2e-7, "{x}: {s} is not {expected}");
            assert!(
                (actual - slope).abs() < 2e-7,
                "{x}: {actual} is not {slope}"
            );
        }
    }

    #[test]
    fn extremes_do_not_overflow() {
        for (x, expected) in [(f32::INFINITY, 1.0), (f32::NEG_INFINITY, 0.0)] {
            let (cdf, pdf) = Exact::cdf_pdf(Scalar, x);
            assert_eq!(cdf, expected);
            assert!(pdf < 1e-37);
            let (s, slope) = Quick::cdf_pdf(Scalar, x);
            assert!(
                (s - expected).abs() < 1e-37 && slope < 1e-37,
                "{x}: {s}, {slope}"
            );
        }
        assert!(Exact::cdf_pdf(Scalar, f32::NAN).0.is_nan());
    }
}
