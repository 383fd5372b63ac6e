//! CubeCL kernels of AdamW, which reads and writes every number once, and of sums in an order that depends on the
//! length alone.

use cubecl::prelude::*;

use crate::gpu::row_group::{RowGroup, RowStrategy};

/// The numbers of [`super::AdamWStep`], in f32.
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

/// [`super::adamw`], one number per unit.
#[cube(launch, address_type = "dynamic")]
pub(super) fn adamw_kernel<F: Float>(
    weight: &Tensor<F>,
    grad: &Tensor<F>,
    exp_avg: &Tensor<F>,
    exp_avg_sq: &Tensor<F>,
    new_weight: &mut Tensor<F>,
    new_exp_avg: &mut Tensor<F>,
    new_exp_avg_sq: &mut Tensor<F>,
    step: Step,
    count: u32,
    #[define(F)] _dtype: ElemType,
) {
    let i = ABSOLUTE_POS;
    if i >= count as usize {
        terminate!();
    }
    let grad = f32::cast_from(grad[i]) * step.grad_scale;
    let (weight, exp_avg, exp_avg_sq) =
        updated::<F>(weight[i], grad, exp_avg[i], exp_avg_sq[i], step);
    new_weight[i] = weight;
    new_exp_avg[i] = exp_avg;
    new_exp_avg_sq[i] = exp_avg_sq;
}

/// [`super::guarded_adamw`], one number per unit.
#[cube(launch, address_type = "dynamic")]
pub(super) fn guarded_adamw_kernel<F: Float>(
    weight: &Tensor<F>,
    grad: &Tensor<F>,
    exp_avg: &Tensor<F>,
    exp_avg_sq: &Tensor<F>,
    guard: &Tensor<f32>,
    new_weight: &mut Tensor<F>,
    new_exp_avg: &mut Tensor<F>,
    new_exp_avg_sq: &mut Tensor<F>,
    step: Step,
    count: u32,
    #[define(F)] _dtype: ElemType,
) {
    let i = ABSOLUTE_POS;
    if i >= count as usize {
        terminate!();
    }
    // All units take one way.
    if guard[1] > 0.0f32 {
        let grad = f32::cast_from(grad[i]) * (step.grad_scale * guard[0]);
        let (weight, exp_avg, exp_avg_sq) =
            updated::<F>(weight[i], grad, exp_avg[i], exp_avg_sq[i], step);
        new_weight[i] = weight;
        new_exp_avg[i] = exp_avg;
        new_exp_avg_sq[i] = exp_avg_sq;
    } else {
        new_weight[i] = weight[i];
        new_exp_avg[i] = exp_avg[i];
        new_exp_avg_sq[i] = exp_avg_sq[i];
    }
}

/// New weight and moments from a gradient with all its factors.
#[cube]
fn updated<F: Float>(weight: F, grad: f32, exp_avg: F, exp_avg_sq: F, step: Step) -> (F, F, F) {
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

/// The new numbers where a guard lets an update be made, else the old ones.
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

/// The content of a [`super::Guard`], by one unit. Numbers that are not finite are found by their bits, since shader
/// compilers may assume that there are none.
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

/// One sum per cube, whose units are one row group: each adds every `cubes * units`-th number.
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
