//! CubeCL kernels: AdamW, which reads and writes every number once, and sums in an order that depends only on the length.

use cubecl::prelude::*;

use crate::gpu::row_group::{RowGroup, RowStrategy};

/// The numbers of [`AdamWStep`](crate::adamw::AdamWStep), in f32.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(super) struct Step {
    pub grad_scale: f32,
    pub weight_scale: f32,
    pub beta1: f32,
    /// `1 - beta1`, rounded once.
    pub rest1: f32,
    pub beta2: f32,
    /// `1 - beta2`, rounded once.
    pub rest2: f32,
    pub eps: f32,
    pub step_size: f32,
    pub inv_sqrt_bias_correction2: f32,
}

/// [`AdamWOps::adamw`](crate::adamw::AdamWOps::adamw) for several parameters: a thread updates one element of each parameter that
/// is long enough.
#[cube(launch, address_type = "dynamic")]
pub(super) fn adamw_kernel<F: Float>(
    weights: &Sequence<OwnedTensor<F>>,
    grads: &Sequence<OwnedTensor<F>>,
    exp_avgs: &Sequence<OwnedTensor<F>>,
    exp_avg_sqs: &Sequence<OwnedTensor<F>>,
    guard: &Tensor<f32>,
    new_weights: &mut Sequence<OwnedTensor<F>>,
    new_exp_avgs: &mut Sequence<OwnedTensor<F>>,
    new_exp_avg_sqs: &mut Sequence<OwnedTensor<F>>,
    steps: &Sequence<Step>,
    counts: &Sequence<u32>,
    #[comptime] parameters: usize,
    #[define(F)] _dtype: ElemType,
) {
    let i = ABSOLUTE_POS;
    let factor = guard[0];
    let made = guard[1] > 0.0f32;
    #[unroll]
    for j in 0..parameters {
        let count = *counts.index(j);
        if i < count as usize {
            let mut weight = weights.index(j)[i];
            let mut exp_avg = exp_avgs.index(j)[i];
            let mut exp_avg_sq = exp_avg_sqs.index(j)[i];
            // The branch is the same for all threads.
            if made {
                let step = steps.index(j);
                let grad = f32::cast_from(grads.index(j)[i]) * (step.grad_scale * factor);
                let (new, first, second) = updated::<F>(weight, grad, exp_avg, exp_avg_sq, step);
                weight = new;
                exp_avg = first;
                exp_avg_sq = second;
            }
            let output = new_weights.index_mut(j);
            output[i] = weight;
            let output = new_exp_avgs.index_mut(j);
            output[i] = exp_avg;
            let output = new_exp_avg_sqs.index_mut(j);
            output[i] = exp_avg_sq;
        }
    }
}

/// New weight and moments from a gradient that includes all its factors.
#[cube]
fn updated<F: Float>(weight: F, grad: f32, exp_avg: F, exp_avg_sq: F, step: &Step) -> (F, F, F) {
    let exp_avg = f32::cast_from(exp_avg) * step.beta1 + grad * step.rest1;
    let exp_avg_sq = f32::cast_from(exp_avg_sq) * step.beta2 + grad * grad * step.rest2;
    let denominator = exp_avg_sq.sqrt() * step.inv_sqrt_bias_correction2 + step.eps;
    let weight =
        f32::cast_from(weight) * step.weight_scale - exp_avg / denominator * step.step_size;
    (
        F::cast_from(weight),
        F::cast_from(exp_avg),
        F::cast_from(exp_avg_sq),
    )
}

/// The new values if the guard lets the update be made, else the old ones.
#[cube(launch, address_type = "dynamic")]
pub(super) fn chosen_kernel<F: Float>(
    guard: &Tensor<f32>,
    old: &Tensor<F>,
    new: &Tensor<F>,
    output: &mut Tensor<F>,
    count: u32,
    #[define(F)] _dtype: ElemType,
) {
    let i = ABSOLUTE_POS;
    if i >= count as usize {
        terminate!();
    }
    output[i] = select(guard[1] > 0.0f32, new[i], old[i]);
}

/// The content of a [`Guard`](crate::adamw::Guard), computed by one thread. Numbers that are not finite are detected by their
/// bits, since shader compilers may assume that there are none.
#[cube(launch, address_type = "dynamic")]
pub(super) fn guard_kernel(
    numbers: &Tensor<f32>,
    before: &Tensor<f32>,
    output: &mut Tensor<f32>,
    count: u32,
    max_norm: f32,
) {
    if ABSOLUTE_POS == 0 {
        let mut made = before[1];
        let mut i = 0usize;
        while i < count as usize {
            let exponent = u32::reinterpret(numbers[i]) & 0x7f80_0000u32;
            made = select(exponent == 0x7f80_0000u32, 0.0f32, made);
            i += 1usize;
        }
        let norm = numbers[count as usize - 1usize] + 1e-6f32;
        output[0] = select(norm > max_norm, max_norm / norm, 1.0f32);
        output[1] = made;
    }
}

/// One sum per workgroup, whose threads form one row group: each adds every `cubes * units`-th element.
#[cube(launch, address_type = "dynamic")]
pub(super) fn sums_kernel<F: Float, O: Float>(
    x: &Tensor<F>,
    output: &mut Tensor<O>,
    count: u32,
    #[comptime] square: bool,
    #[comptime] strategy: RowStrategy,
    #[define(F)] _from: ElemType,
    #[define(O)] _to: ElemType,
) {
    let mut group = RowGroup::new(strategy);
    let units = CUBE_COUNT * CUBE_DIM as usize;
    let mut sum = 0.0f32;
    let mut i = ABSOLUTE_POS;
    while i < count as usize {
        let value = f32::cast_from(x[i]);
        if comptime!(square) {
            sum += value * value;
        } else {
            sum += value;
        }
        i += units;
    }
    let sum = group.sum(sum);
    if UNIT_POS == 0 {
        output[CUBE_POS] = O::cast_from(sum);
    }
}

/// Partial sums with the squares of some tensors added to them: one sum per workgroup, whose threads form one row group. Each
/// thread adds every `cubes * units`-th element of each tensor.
#[cube(launch, address_type = "dynamic")]
pub(super) fn add_square_sums_kernel(
    parts: &Tensor<f32>,
    tensors: &Sequence<OwnedTensor<f32>>,
    output: &mut Tensor<f32>,
    counts: &Sequence<u32>,
    #[comptime] number: usize,
    #[comptime] strategy: RowStrategy,
) {
    let mut group = RowGroup::new(strategy);
    let units = CUBE_COUNT * CUBE_DIM as usize;
    let mut sum = 0.0f32;
    #[unroll]
    for j in 0..number {
        let count = *counts.index(j);
        let mut i = ABSOLUTE_POS;
        while i < count as usize {
            let value = tensors.index(j)[i];
            sum += value * value;
            i += units;
        }
    }
    let sum = group.sum(sum);
    if UNIT_POS == 0 {
        output[CUBE_POS] = parts[CUBE_POS] + sum;
    }
}
