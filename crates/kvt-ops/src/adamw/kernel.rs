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
    let exp_avg = f32::cast_from(exp_avg[i]) * step.beta1 + grad * step.rest1;
    let exp_avg_sq = f32::cast_from(exp_avg_sq[i]) * step.beta2 + grad * grad * step.rest2;
    let denominator = exp_avg_sq.sqrt() * step.inv_sqrt_bias_correction2 + step.eps;
    let weight =
        f32::cast_from(weight[i]) * step.weight_scale - exp_avg / denominator * step.step_size;
    new_weight[i] = F::cast_from(weight);
    new_exp_avg[i] = F::cast_from(exp_avg);
    new_exp_avg_sq[i] = F::cast_from(exp_avg_sq);
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
