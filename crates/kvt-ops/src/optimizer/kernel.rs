//! CubeCL kernels of optimizers: of AdamW, which reads and writes every number once, and of sums, in
//! an order that the length alone decides.

use cubecl::prelude::*;

use crate::kernels::team::{Sharing, Team};

/// The numbers of [`super::AdamWStep`], in f32.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(super) struct Step {
    pub factor: f32,
    pub decay: f32,
    pub keep_first: f32,
    pub take_first: f32,
    pub keep_second: f32,
    pub take_second: f32,
    pub eps: f32,
    pub size: f32,
    pub correction: f32,
}

#[cube(launch, address_type = "dynamic")]
pub(super) fn adamw_kernel<F: Float>(
    weight: &Tensor<F>,
    grad: &Tensor<F>,
    first: &Tensor<F>,
    second: &Tensor<F>,
    new_weight: &mut Tensor<F>,
    new_first: &mut Tensor<F>,
    new_second: &mut Tensor<F>,
    step: Step,
    count: u32,
    #[define(F)] _dtype: ElemType,
) {
    let i = ABSOLUTE_POS;
    if i >= count as usize {
        terminate!();
    }
    let grad = f32::cast_from(grad[i]) * step.factor;
    let first = f32::cast_from(first[i]) * step.keep_first + grad * step.take_first;
    let second = f32::cast_from(second[i]) * step.keep_second + grad * grad * step.take_second;
    let root = second.sqrt() * step.correction + step.eps;
    let weight = f32::cast_from(weight[i]) * step.decay - first / root * step.size;
    new_weight[i] = F::cast_from(weight);
    new_first[i] = F::cast_from(first);
    new_second[i] = F::cast_from(second);
}

/// A sum per cube, whose units take turns with those of the others. All units of a cube make one team.
#[cube(launch, address_type = "dynamic")]
pub(super) fn sums_kernel<F: Float, O: Float>(
    x: &Tensor<F>,
    output: &mut Tensor<O>,
    count: u32,
    #[comptime] square: bool,
    #[comptime] sharing: Sharing,
    #[define(F)] _from: ElemType,
    #[define(O)] _to: ElemType,
) {
    let mut team = Team::new(sharing);
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
    let sum = team.sum(sum);
    if UNIT_POS == 0 {
        output[CUBE_POS] = O::cast_from(sum);
    }
}
