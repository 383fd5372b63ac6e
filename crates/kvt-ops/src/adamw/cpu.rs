//! AdamW on the CPU: one pass on all threads.

use burn::backend::{Flex, TensorMetadata, tensor::FloatTensor};
use burn::tensor::Shape;
use rayon::prelude::*;

use super::eight::{Eight, GROUP, transposed, zip};
use super::{AdamWOps, AdamWStep};
use crate::cast::{cast, to_f32};
use crate::cpu::buffer::{par_map_copy, tensor, values_of};
use crate::cpu::simd::dot;
use crate::cpu::wide::wide;

/// Elements per block: a constant, so that sums do not depend on the number of threads.
const BLOCK: usize = 16 * 1024;

impl AdamWOps for Flex {
    fn square_sum(x: FloatTensor<Self>) -> FloatTensor<Self> {
        let dtype = x.dtype();
        let x = to_f32::<Self>(x).to_contiguous();
        let blocks = values_of(&x).par_chunks(BLOCK);
        let sums: Vec<f32> = blocks.map(sum_of_squares).collect();
        // Few numbers of similar size: their sum is nearly exact in f64.
        let sum = sums.into_iter().map(f64::from).sum::<f64>() as f32;
        cast::<Self>(tensor(vec![sum], Shape::new([1])), dtype)
    }

    /// Adds the tensors one after the other to the first partial sum.
    fn add_square_sums(parts: FloatTensor<Self>, tensors: Eight<Self>) -> FloatTensor<Self> {
        let mut parts = parts.to_contiguous();
        for x in tensors.into_array() {
            let sum = Self::square_sum(x);
            if let ([part, ..], [sum]) = (parts.storage_mut::<f32>(), values_of(&sum)) {
                *part += *sum;
            }
        }
        parts
    }

    fn sum_of_parts(parts: FloatTensor<Self>) -> FloatTensor<Self> {
        let sum = values_of(&parts.to_contiguous()).first().copied();
        tensor(vec![sum.unwrap_or(0.0)], Shape::new([1]))
    }

    /// The factor is rounded once, as [`AdamWStep::grad_scale`] is.
    fn guard(
        numbers: FloatTensor<Self>,
        before: FloatTensor<Self>,
        max_norm: f64,
    ) -> FloatTensor<Self> {
        let [numbers, before] = [numbers, before].map(|x| x.to_contiguous());
        let numbers = values_of(&numbers);
        let norm = numbers.last().copied().unwrap_or(f32::NAN);
        let finite = numbers.iter().all(|number| number.is_finite());
        let made = match values_of(&before) {
            [_, before] if finite => *before,
            _ => 0.0,
        };
        let factor = (max_norm / (f64::from(norm) + 1e-6)).min(1.0);
        tensor(vec![factor as f32, made], Shape::new([2]))
    }

    fn adamw(
        weight: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        exp_avg: FloatTensor<Self>,
        exp_avg_sq: FloatTensor<Self>,
        guard: FloatTensor<Self>,
        step: AdamWStep,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let step = match values_of(&guard.to_contiguous()) {
            [factor, made] if *made > 0.0 => {
                let grad_scale = step.grad_scale * f64::from(*factor);
                AdamWStep { grad_scale, ..step }
            }
            _ => return (weight, exp_avg, exp_avg_sq),
        };
        let (dtype, shape) = (weight.dtype(), weight.shape());
        let [weight, grad, mut exp_avg, mut exp_avg_sq] =
            [weight, grad, exp_avg, exp_avg_sq].map(|x| to_f32::<Self>(x).to_contiguous());
        let others = values_of(&grad)
            .par_chunks(BLOCK)
            .zip(exp_avg.storage_mut::<f32>().par_chunks_mut(BLOCK))
            .zip(exp_avg_sq.storage_mut::<f32>().par_chunks_mut(BLOCK));
        let weight = par_map_copy(
            values_of(&weight),
            BLOCK,
            others,
            |weight, ((grad, exp_avg), exp_avg_sq)| {
                update(weight, grad, exp_avg, exp_avg_sq, step);
            },
        );
        let weight = cast::<Self>(tensor(weight, shape), dtype);
        (
            weight,
            cast::<Self>(exp_avg, dtype),
            cast::<Self>(exp_avg_sq, dtype),
        )
    }

    fn adamw_of_eight(
        weights: Eight<Self>,
        grads: Eight<Self>,
        exp_avgs: Eight<Self>,
        exp_avg_sqs: Eight<Self>,
        guard: FloatTensor<Self>,
        steps: [AdamWStep; GROUP],
    ) -> (Eight<Self>, Eight<Self>, Eight<Self>) {
        let inputs = [weights, grads, exp_avgs, exp_avg_sqs].map(Eight::into_array);
        let outputs = zip(transposed(inputs), steps).map(|(input, step)| {
            let [weight, grad, exp_avg, exp_avg_sq] = input;
            let guard = guard.clone();
            <[_; 3]>::from(Self::adamw(weight, grad, exp_avg, exp_avg_sq, guard, step))
        });
        transposed(outputs).map(Eight::<Self>::new).into()
    }
}

wide! {
    /// The sum of the squares of a block.
    fn sum_of_squares<'a, simd: S>(block: &'a [f32]) -> f32 {
        dot(simd, block, block)
    }

    /// [`super::adamw`] of a block.
    fn update<'a>(
        weight: &'a mut [f32],
        grad: &'a [f32],
        exp_avg: &'a mut [f32],
        exp_avg_sq: &'a mut [f32],
        step: AdamWStep,
    ) {
        let (beta1, beta2) = step.betas;
        let [rest1, rest2] = [1.0 - beta1, 1.0 - beta2].map(|x| x as f32);
        let [beta1, beta2] = [beta1, beta2].map(|x| x as f32);
        let [
            grad_scale,
            weight_scale,
            eps,
            step_size,
            inv_sqrt_bias_correction2,
        ] = [
            step.grad_scale,
            step.weight_scale,
            step.eps,
            step.step_size,
            step.inv_sqrt_bias_correction2,
        ]
        .map(|x| x as f32);
        let moments = exp_avg.iter_mut().zip(exp_avg_sq);
        for ((weight, grad), (exp_avg, exp_avg_sq)) in weight.iter_mut().zip(grad).zip(moments) {
            let grad = grad * grad_scale;
            *exp_avg = *exp_avg * beta1 + grad * rest1;
            *exp_avg_sq = *exp_avg_sq * beta2 + grad * grad * rest2;
            let denominator = exp_avg_sq.sqrt() * inv_sqrt_bias_correction2 + eps;
            *weight = *weight * weight_scale - *exp_avg / denominator * step_size;
        }
    }
}
