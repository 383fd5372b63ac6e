//! Optimizers on the `flex` CPU backend: one pass over all threads.

use burn::backend::{Flex, TensorMetadata, tensor::FloatTensor};
use burn::tensor::Shape;
use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::{AdamWStep, OptimizerOps};
use crate::buffer::{changed_copy, tensor, values_of};
use crate::math::dot;
use crate::{narrow, widen};

/// Values handed to a thread at once: a constant, so that sums do not depend on their number.
const BLOCK: usize = 16 * 1024;

impl OptimizerOps for Flex {
    fn square_sum(x: FloatTensor<Self>) -> FloatTensor<Self> {
        let dtype = x.dtype();
        let x = widen::<Self>(x).to_contiguous();
        let arch = Arch::new();
        let sums: Vec<f32> = values_of(&x)
            .par_chunks(BLOCK)
            .map(|block| arch.dispatch(Square(block)))
            .collect();
        // Few numbers of much the same size: in f64 their sum is as good as exact.
        let sum = sums.into_iter().map(f64::from).sum::<f64>() as f32;
        narrow::<Self>(tensor(vec![sum], Shape::new([1])), dtype)
    }

    fn adamw(
        weight: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        first: FloatTensor<Self>,
        second: FloatTensor<Self>,
        step: AdamWStep,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let (dtype, shape) = (weight.dtype(), weight.shape());
        let [weight, grad, mut first, mut second] =
            [weight, grad, first, second].map(|x| widen::<Self>(x).to_contiguous());
        let arch = Arch::new();
        let others = values_of(&grad)
            .par_chunks(BLOCK)
            .zip(first.storage_mut::<f32>().par_chunks_mut(BLOCK))
            .zip(second.storage_mut::<f32>().par_chunks_mut(BLOCK));
        let weight = changed_copy(
            values_of(&weight),
            BLOCK,
            others,
            |weight, ((grad, first), second)| {
                arch.dispatch(|| update(weight, grad, first, second, step));
            },
        );
        let weight = narrow::<Self>(tensor(weight, shape), dtype);
        (
            weight,
            narrow::<Self>(first, dtype),
            narrow::<Self>(second, dtype),
        )
    }
}

struct Square<'a>(&'a [f32]);

impl WithSimd for Square<'_> {
    type Output = f32;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f32 {
        dot(simd, self.0, self.0)
    }
}

#[inline(always)]
fn update(
    weight: &mut [f32],
    grad: &[f32],
    first: &mut [f32],
    second: &mut [f32],
    step: AdamWStep,
) {
    let AdamWStep {
        betas: (beta1, beta2),
        ..
    } = step;
    let [factor, decay, eps, size, correction] = [
        step.factor,
        step.decay,
        step.eps,
        step.size,
        step.correction,
    ]
    .map(|x| x as f32);
    let [keep1, take1, keep2, take2] = [beta1, 1.0 - beta1, beta2, 1.0 - beta2].map(|x| x as f32);
    let moments = first.iter_mut().zip(second);
    for ((weight, grad), (first, second)) in weight.iter_mut().zip(grad).zip(moments) {
        let grad = grad * factor;
        *first = *first * keep1 + grad * take1;
        *second = *second * keep2 + grad * grad * take2;
        let root = second.sqrt() * correction + eps;
        *weight = *weight * decay - *first / root * size;
    }
}
