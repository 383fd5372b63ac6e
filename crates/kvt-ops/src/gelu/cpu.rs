//! GELU on the CPU: SIMD on all threads.

use burn::backend::{Flex, TensorMetadata, tensor::FloatTensor};
use burn::tensor::{DType, bf16};
use pulp::Simd;
use rayon::prelude::*;

use super::{Gelu, GeluOps, QUICK};
use crate::cast::{cast, to_f32};
use crate::contiguous::cpu::contiguous;
use crate::cpu::buffer::{par_map_copy, par_write_with, tensor, tensor_of, values_in, values_of};
use crate::cpu::round::{copy, copy_new};
use crate::cpu::simd::{each_with, exp};
use crate::cpu::wide::wide;

/// Values per block.
const BLOCK: usize = 16 * 1024;

impl GeluOps for Flex {
    fn gelu_by(x: FloatTensor<Self>, curve: Gelu) -> FloatTensor<Self> {
        if x.dtype() == DType::BF16 {
            return bf16_forward(&x.to_contiguous(), curve);
        }
        let (dtype, shape) = (x.dtype(), x.shape());
        let x = contiguous(to_f32::<Self>(x));
        let x = values_of(&x);
        let numbers = (0..x.len().div_ceil(BLOCK)).into_par_iter();
        let out = par_map_copy(x, BLOCK, numbers, |block, _| gelu_in_place(block, curve));
        cast::<Self>(tensor(out, shape), dtype)
    }

    fn gelu_by_backward(
        x: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        curve: Gelu,
    ) -> FloatTensor<Self> {
        if [x.dtype(), grad.dtype()] == [DType::BF16; 2] {
            return bf16_backward(&x.to_contiguous(), &grad.to_contiguous(), curve);
        }
        let (dtype, shape) = (x.dtype(), x.shape());
        let [x, grad] = [x, grad].map(|x| contiguous(to_f32::<Self>(x)));
        let x = values_of(&x).par_chunks(BLOCK);
        let out = par_map_copy(values_of(&grad), BLOCK, x, |grad, x| {
            multiply_by_slope(grad, x, curve);
        });
        cast::<Self>(tensor(out, shape), dtype)
    }
}

/// `Phi(x)` with an error of at most 1e-7, and the density `phi(x)`.
///
/// Abramowitz & Stegun 7.1.26: `erfc(z) = t (a1 + t (a2 + ...)) e^{-z^2}` with `t = 1 / (1 + p z)`, for `z >= 0`, where
/// there is no cancellation.
#[inline(always)]
fn normal<S: Simd>(simd: S, x: S::f32s) -> (S::f32s, S::f32s) {
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

/// `s = sigmoid(1.702 x)`, and its derivative `1.702 s (1 - s)`.
#[inline(always)]
fn sigmoid<S: Simd>(simd: S, x: S::f32s) -> (S::f32s, S::f32s) {
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

/// Values that are widened together, on the stack.
const WIDENED: usize = 1024;

/// [`gelu_in_place`] on this thread, computed in f32, and rounded when it is written.
pub(crate) fn gelu_bf16(values: &mut [bf16], curve: Gelu) {
    let mut block = [0.0; WIDENED];
    for values in values.chunks_mut(WIDENED) {
        let block = &mut block[..values.len()];
        copy(values, block);
        gelu_in_place(block, curve);
        copy(block, values);
    }
}

/// [`gelu_and_gradient`] in the same way.
pub(crate) fn gelu_and_gradient_bf16(grad: &mut [bf16], x: &mut [bf16], curve: Gelu) {
    let mut blocks = [[0.0; WIDENED]; 2];
    for (grad, x) in grad.chunks_mut(WIDENED).zip(x.chunks_mut(WIDENED)) {
        let [wide_grad, wide_x] = blocks.each_mut().map(|block| &mut block[..x.len()]);
        copy(grad, wide_grad);
        copy(x, wide_x);
        gelu_and_gradient(wide_grad, wide_x, curve);
        copy(wide_grad, grad);
        copy(wide_x, x);
    }
}

/// Widens a block in the cache, and rounds it when it is written.
fn bf16_forward(x: &FloatTensor<Flex>, curve: Gelu) -> FloatTensor<Flex> {
    let values: &[bf16] = values_in(x);
    let blocks = values.par_chunks(BLOCK);
    let scratch = || vec![0.0; BLOCK];
    let out = par_write_with(values.len(), BLOCK, blocks, scratch, |block, out, x| {
        let block = &mut block[..x.len()];
        copy(x, block);
        gelu_in_place(block, curve);
        copy_new::<f32, bf16>(block, out)
    });
    tensor_of(out, x.shape())
}

/// As [`bf16_forward`].
fn bf16_backward(
    x: &FloatTensor<Flex>,
    grad: &FloatTensor<Flex>,
    curve: Gelu,
) -> FloatTensor<Flex> {
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
            multiply_by_slope(grad_block, x_block, curve);
            copy_new::<f32, bf16>(grad_block, out)
        },
    );
    tensor_of(out, x.shape())
}

wide! {
    /// `x <- x F(x)`
    pub(crate) fn gelu_in_place<'a, simd: S>(values: &'a mut [f32], curve: Gelu) {
        match curve {
            Gelu::Exact => each(
                simd,
                values,
                #[inline(always)]
                |x| simd.mul_f32s(x, normal(simd, x).0),
            ),
            Gelu::Quick => each(
                simd,
                values,
                #[inline(always)]
                |x| simd.mul_f32s(x, sigmoid(simd, x).0),
            ),
        }
    }

    /// `grad <- grad (F(x) + x F'(x))`
    pub(crate) fn multiply_by_slope<'a, simd: S>(grad: &'a mut [f32], x: &'a [f32], curve: Gelu) {
        match curve {
            Gelu::Exact => each_with(
                simd,
                grad,
                x,
                #[inline(always)]
                |grad, x| simd.mul_f32s(grad, slope(simd, x, normal(simd, x))),
            ),
            Gelu::Quick => each_with(
                simd,
                grad,
                x,
                #[inline(always)]
                |grad, x| simd.mul_f32s(grad, slope(simd, x, sigmoid(simd, x))),
            ),
        }
    }

    /// `grad <- grad (F(x) + x F'(x))` and `x <- x F(x)`
    pub(crate) fn gelu_and_gradient<'a, simd: S>(grad: &'a mut [f32], x: &'a mut [f32], curve: Gelu) {
        match curve {
            Gelu::Exact => each_of_both(
                simd,
                grad,
                x,
                #[inline(always)]
                |x| normal(simd, x),
            ),
            Gelu::Quick => each_of_both(
                simd,
                grad,
                x,
                #[inline(always)]
                |x| sigmoid(simd, x),
            ),
        }
    }
}

/// [`gelu_and_gradient`], for a function that returns `F` and `F'`.
#[inline(always)]
fn each_of_both<S: Simd>(
    simd: S,
    grad: &mut [f32],
    x: &mut [f32],
    curve: impl Fn(S::f32s) -> (S::f32s, S::f32s),
) {
    let (grads, grads_rest) = S::as_mut_simd_f32s(grad);
    let (xs, xs_rest) = S::as_mut_simd_f32s(x);
    for (grad, x) in grads.iter_mut().zip(xs) {
        let at = curve(*x);
        *grad = simd.mul_f32s(*grad, slope(simd, *x, at));
        *x = simd.mul_f32s(*x, at.0);
    }
    let grad = simd.partial_load_f32s(grads_rest);
    let x = simd.partial_load_f32s(xs_rest);
    let at = curve(x);
    simd.partial_store_f32s(grads_rest, simd.mul_f32s(grad, slope(simd, x, at)));
    simd.partial_store_f32s(xs_rest, simd.mul_f32s(x, at.0));
}

/// Replaces each of the values.
#[inline(always)]
fn each<S: Simd>(simd: S, values: &mut [f32], change: impl Fn(S::f32s) -> S::f32s) {
    let (main, rest) = S::as_mut_simd_f32s(values);
    for x in main {
        *x = change(*x);
    }
    let x = simd.partial_load_f32s(rest);
    simd.partial_store_f32s(rest, change(x));
}

/// The derivative `F(x) + x F'(x)`.
#[inline(always)]
fn slope<S: Simd>(simd: S, x: S::f32s, (cdf, pdf): (S::f32s, S::f32s)) -> S::f32s {
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
            let actual = f64::from(normal(Scalar, x).0);
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
            let (s, actual) = sigmoid(Scalar, x);
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
            let (cdf, pdf) = normal(Scalar, x);
            assert_eq!(cdf, expected);
            assert!(pdf < 1e-37);
            let (s, slope) = sigmoid(Scalar, x);
            assert!(
                (s - expected).abs() < 1e-37 && slope < 1e-37,
                "{x}: {s}, {slope}"
            );
        }
        assert!(normal(Scalar, f32::NAN).0.is_nan());
    }
}
