//! CubeCL kernels of layer normalisation: one forward pass over each row, one backward pass, and the sums over all rows
//! for the gradients of gamma and beta.

use cubecl::prelude::*;

use crate::gpu::row_group::{RowGroup, RowStrategy};

#[cube(launch, address_type = "dynamic")]
pub(super) fn layer_norm_kernel<F: Float>(
    x: &Tensor<F>,
    gamma: &Tensor<F>,
    beta: &Tensor<F>,
    out: &mut Tensor<F>,
    mean: &mut Tensor<f32>,
    rstd: &mut Tensor<f32>,
    rows: u32,
    width: u32,
    epsilon: f32,
    #[comptime] strategy: RowStrategy,
    #[comptime] chunk: usize,
    #[define(F)] _dtype: ElemType,
) {
    let mut group = RowGroup::new(strategy);
    let part = group.part(rows, width);
    let inv_width = 1.0f32 / f32::cast_from(width);
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
    let row_mean = group.sum(sum) * inv_width;
    // The variance around the mean: a difference of mean squares would lose digits.
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
    let row_rstd = 1.0f32 / (group.sum(squares) * inv_width + epsilon).sqrt();
    let mut i = part.first;
    while i < part.width {
        #[unroll]
        for j in 0..chunk {
            let at = i + j * part.step;
            if at < part.width {
                let x_hat = (f32::cast_from(x[part.base + at]) - row_mean) * row_rstd;
                let value = x_hat * f32::cast_from(gamma[at]) + f32::cast_from(beta[at]);
                out[part.base + at] = F::cast_from(value);
            }
        }
        i += part.step * chunk;
    }
    if part.first == 0 && part.width > 0 {
        mean[part.row] = row_mean;
        rstd[part.row] = row_rstd;
    }
}

/// The gradient of x: `(g - mean(g) - x_hat mean(g x_hat)) rstd` with `g = grad gamma`.
#[cube(launch, address_type = "dynamic")]
pub(super) fn layer_norm_backward_kernel<F: Float>(
    x: &Tensor<F>,
    gamma: &Tensor<F>,
    mean: &Tensor<f32>,
    rstd: &Tensor<f32>,
    grad: &Tensor<F>,
    out: &mut Tensor<F>,
    rows: u32,
    width: u32,
    #[comptime] strategy: RowStrategy,
    #[comptime] chunk: usize,
    #[define(F)] _dtype: ElemType,
) {
    let mut group = RowGroup::new(strategy);
    let part = group.part(rows, width);
    let inv_width = 1.0f32 / f32::cast_from(width);
    let mut row_mean = 0.0f32;
    let mut row_rstd = 0.0f32;
    if part.width > 0 {
        row_mean = mean[part.row];
        row_rstd = rstd[part.row];
    }
    let mut sum_g = 0.0f32;
    let mut sum_g_x_hat = 0.0f32;
    let mut i = part.first;
    while i < part.width {
        #[unroll]
        for j in 0..chunk {
            let at = i + j * part.step;
            if at < part.width {
                let x_hat = (f32::cast_from(x[part.base + at]) - row_mean) * row_rstd;
                let g = f32::cast_from(grad[part.base + at]) * f32::cast_from(gamma[at]);
                sum_g += g;
                sum_g_x_hat += g * x_hat;
            }
        }
        i += part.step * chunk;
    }
    let mean_g = group.sum(sum_g) * inv_width;
    let mean_g_x_hat = group.sum(sum_g_x_hat) * inv_width;
    let mut i = part.first;
    while i < part.width {
        #[unroll]
        for j in 0..chunk {
            let at = i + j * part.step;
            if at < part.width {
                let x_hat = (f32::cast_from(x[part.base + at]) - row_mean) * row_rstd;
                let g = f32::cast_from(grad[part.base + at]) * f32::cast_from(gamma[at]);
                let value = (g - mean_g - x_hat * mean_g_x_hat) * row_rstd;
                out[part.base + at] = F::cast_from(value);
            }
        }
        i += part.step * chunk;
    }
}

/// Sums of `grad x_hat` and of `grad` over the rows of a block, `[2, block, width]`: one column per thread, one block
/// per workgroup in y.
#[cube(launch, address_type = "dynamic")]
pub(super) fn column_sums_kernel<F: Float>(
    x: &Tensor<F>,
    mean: &Tensor<f32>,
    rstd: &Tensor<f32>,
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
    let mut gamma_sum = 0.0f32;
    let mut beta_sum = 0.0f32;
    for row in first..end {
        let at = row * width + column;
        let value = f32::cast_from(grad[at]);
        gamma_sum += value * (f32::cast_from(x[at]) - mean[row]) * rstd[row];
        beta_sum += value;
    }
    sums[block * width + column] = gamma_sum;
    sums[(blocks + block) * width + column] = beta_sum;
}

/// The gradients of gamma and beta: the sums over the blocks.
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
    let mut gamma_sum = 0.0f32;
    let mut beta_sum = 0.0f32;
    for block in 0..blocks {
        gamma_sum += sums[block * width + column];
        beta_sum += sums[(blocks + block) * width + column];
    }
    gamma_grad[column] = F::cast_from(gamma_sum);
    beta_grad[column] = F::cast_from(beta_sum);
}
