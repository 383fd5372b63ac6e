//! CubeCL kernels of layer normalisation: a pass over each row forward and one backward, and the sums
//! over all rows that the gradients of gamma and beta are.

use cubecl::prelude::*;

use crate::kernels::team::{Sharing, Team};

#[cube(launch, address_type = "dynamic")]
pub(super) fn normalize_kernel<F: Float>(
    x: &Tensor<F>,
    gamma: &Tensor<F>,
    beta: &Tensor<F>,
    out: &mut Tensor<F>,
    mean: &mut Tensor<f32>,
    inverse: &mut Tensor<f32>,
    rows: u32,
    width: u32,
    epsilon: f32,
    #[comptime] sharing: Sharing,
    #[comptime] chunk: usize,
    #[define(F)] _dtype: ElemType,
) {
    let mut team = Team::new(sharing);
    let part = team.part(rows, width);
    let share = 1.0f32 / f32::cast_from(width);
    let mut sum = 0.0f32;
    let mut i = part.first;
    while i < part.width {
        #[unroll]
        for j in 0..chunk {
            let at = i + j * part.step;
            if at < part.width {
                sum += f32::cast_from(x[part.base + at]);
            }
        }
        i += part.step * chunk;
    }
    let row_mean = team.sum(sum) * share;
    // The variance about the mean: the mean of the squares would lose digits.
    let mut squares = 0.0f32;
    let mut i = part.first;
    while i < part.width {
        #[unroll]
        for j in 0..chunk {
            let at = i + j * part.step;
            if at < part.width {
                let centered = f32::cast_from(x[part.base + at]) - row_mean;
                squares += centered * centered;
            }
        }
        i += part.step * chunk;
    }
    let row_inverse = 1.0f32 / (team.sum(squares) * share + epsilon).sqrt();
    let mut i = part.first;
    while i < part.width {
        #[unroll]
        for j in 0..chunk {
            let at = i + j * part.step;
            if at < part.width {
                let normal = (f32::cast_from(x[part.base + at]) - row_mean) * row_inverse;
                let value = normal * f32::cast_from(gamma[at]) + f32::cast_from(beta[at]);
                out[part.base + at] = F::cast_from(value);
            }
        }
        i += part.step * chunk;
    }
    if part.first == 0 && part.width > 0 {
        mean[part.row] = row_mean;
        inverse[part.row] = row_inverse;
    }
}

/// The gradient of x: `(g - mean(g) - normal mean(g normal)) inverse` with `g = grad gamma`.
#[cube(launch, address_type = "dynamic")]
pub(super) fn normalize_backward_kernel<F: Float>(
    x: &Tensor<F>,
    gamma: &Tensor<F>,
    mean: &Tensor<f32>,
    inverse: &Tensor<f32>,
    grad: &Tensor<F>,
    out: &mut Tensor<F>,
    rows: u32,
    width: u32,
    #[comptime] sharing: Sharing,
    #[comptime] chunk: usize,
    #[define(F)] _dtype: ElemType,
) {
    let mut team = Team::new(sharing);
    let part = team.part(rows, width);
    let share = 1.0f32 / f32::cast_from(width);
    let mut row_mean = 0.0f32;
    let mut row_inverse = 0.0f32;
    if part.width > 0 {
        row_mean = mean[part.row];
        row_inverse = inverse[part.row];
    }
    let mut sum = 0.0f32;
    let mut along = 0.0f32;
    let mut i = part.first;
    while i < part.width {
        #[unroll]
        for j in 0..chunk {
            let at = i + j * part.step;
            if at < part.width {
                let normal = (f32::cast_from(x[part.base + at]) - row_mean) * row_inverse;
                let scaled = f32::cast_from(grad[part.base + at]) * f32::cast_from(gamma[at]);
                sum += scaled;
                along += scaled * normal;
            }
        }
        i += part.step * chunk;
    }
    let shift = team.sum(sum) * share;
    let along = team.sum(along) * share;
    let mut i = part.first;
    while i < part.width {
        #[unroll]
        for j in 0..chunk {
            let at = i + j * part.step;
            if at < part.width {
                let normal = (f32::cast_from(x[part.base + at]) - row_mean) * row_inverse;
                let scaled = f32::cast_from(grad[part.base + at]) * f32::cast_from(gamma[at]);
                let value = (scaled - shift - normal * along) * row_inverse;
                out[part.base + at] = F::cast_from(value);
            }
        }
        i += part.step * chunk;
    }
}

/// Sums of `grad normal` and of `grad` over the rows of a block, `[2, block, width]`: a column per unit,
/// a block per cube in y.
#[cube(launch, address_type = "dynamic")]
pub(super) fn column_sums_kernel<F: Float>(
    x: &Tensor<F>,
    mean: &Tensor<f32>,
    inverse: &Tensor<f32>,
    grad: &Tensor<F>,
    sums: &mut Tensor<f32>,
    rows: u32,
    width: u32,
    rows_per_block: u32,
    #[define(F)] _dtype: ElemType,
) {
    let column = ABSOLUTE_POS_X as usize;
    let width = width as usize;
    if column >= width {
        terminate!();
    }
    let blocks = CUBE_COUNT_Y as usize;
    let block = CUBE_POS_Y as usize;
    let first = block * rows_per_block as usize;
    let end = min(first + rows_per_block as usize, rows as usize);
    let mut along = 0.0f32;
    let mut sum = 0.0f32;
    for row in first..end {
        let at = row * width + column;
        let value = f32::cast_from(grad[at]);
        along += value * (f32::cast_from(x[at]) - mean[row]) * inverse[row];
        sum += value;
    }
    sums[block * width + column] = along;
    sums[(blocks + block) * width + column] = sum;
}

/// Adds the sums of the blocks up: the gradients of gamma and beta.
#[cube(launch, address_type = "dynamic")]
pub(super) fn block_sums_kernel<F: Float>(
    sums: &Tensor<f32>,
    gamma_grad: &mut Tensor<F>,
    beta_grad: &mut Tensor<F>,
    width: u32,
    blocks: u32,
    #[define(F)] _dtype: ElemType,
) {
    let column = ABSOLUTE_POS;
    let (width, blocks) = (width as usize, blocks as usize);
    if column >= width {
        terminate!();
    }
    let mut along = 0.0f32;
    let mut sum = 0.0f32;
    for block in 0..blocks {
        along += sums[block * width + column];
        sum += sums[(blocks + block) * width + column];
    }
    gamma_grad[column] = F::cast_from(along);
    beta_grad[column] = F::cast_from(sum);
}
