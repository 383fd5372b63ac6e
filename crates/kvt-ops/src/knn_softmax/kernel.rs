//! CubeCL kernels of k-NN softmax: a row group per row. The scores stay in global memory and its caches, so
//! that rows may have any length.

use cubecl::prelude::*;

use crate::gpu::order_key::{INFINITY, NEGATIVE_INFINITY, key_value, ordered_key, survivor_exp};
use crate::gpu::row_group::{RowGroup, RowStrategy};
use crate::gpu::select::select_keys;

/// Probabilities of the `k` largest of each row of scores, zero elsewhere.
#[cube(launch, address_type = "dynamic")]
pub(super) fn knn_softmax_kernel<F: Float>(
    scores: &Tensor<F>,
    output: &mut Tensor<F>,
    rows: u32,
    keys: u32,
    k: u32,
    #[comptime] strategy: RowStrategy,
    #[comptime] chunk: usize,
    #[define(F)] _dtype: ElemType,
) {
    let mut group = RowGroup::new(strategy);
    let part = group.part(rows, keys);
    let mut max_key = 0u32;
    let mut min_key = 0xffff_ffffu32;
    let mut i = part.first;
    while i < part.width {
        #[unroll]
        for j in 0..chunk {
            let at = i + j * part.step;
            if at < part.width {
                let key = ordered_key::<F>(scores[part.base + at]);
                max_key = select(key > max_key, key, max_key);
                min_key = select(key < min_key, key, min_key);
            }
        }
        i += part.step * chunk;
    }
    let max_key = group.max(max_key);
    // The minimum, as a maximum of complements.
    let min_key = 0xffff_ffffu32 - group.max(0xffff_ffffu32 - min_key);
    // A NaN or +inf in the row, or nothing but -inf: the softmax is undefined.
    let broken = max_key >= INFINITY || max_key <= NEGATIVE_INFINITY;
    // Below every key: all survive.
    let mut threshold = 0u32;
    let mut bound = 0u32;
    if k < keys {
        let (found, places) = select_keys::<F>(
            scores.as_slice(),
            &part,
            &mut group,
            k,
            min_key,
            max_key,
            !broken,
            chunk,
        );
        threshold = found;
        bound = places;
    }

    // Softmax over the survivors, accumulated in f32.
    let max = key_value(max_key);
    let mut sum = 0.0f32;
    let mut i = part.first;
    while i < part.width {
        #[unroll]
        for j in 0..chunk {
            let at = i + j * part.step;
            if at < part.width {
                let score = scores[part.base + at];
                sum += survivor_exp::<F>(score, at as u32, max, threshold, bound);
            }
        }
        i += part.step * chunk;
    }
    let total = group.sum(sum);
    let nan = f32::reinterpret(max_key | 0x7fff_ffffu32);
    let mut i = part.first;
    while i < part.width {
        #[unroll]
        for j in 0..chunk {
            let at = i + j * part.step;
            if at < part.width {
                let score = scores[part.base + at];
                let weight = survivor_exp::<F>(score, at as u32, max, threshold, bound);
                output[part.base + at] = F::cast_from(select(broken, nan, weight / total));
            }
        }
        i += part.step * chunk;
    }
}

/// The gradient of the scores times `scale`: `scale P (dP - sum(P dP))`.
#[cube(launch, address_type = "dynamic")]
pub(super) fn knn_softmax_backward_kernel<F: Float>(
    probabilities: &Tensor<F>,
    grad: &Tensor<F>,
    output: &mut Tensor<F>,
    rows: u32,
    keys: u32,
    scale: f32,
    #[comptime] strategy: RowStrategy,
    #[comptime] chunk: usize,
    #[define(F)] _dtype: ElemType,
) {
    let mut group = RowGroup::new(strategy);
    let part = group.part(rows, keys);
    let mut sum = 0.0f32;
    let mut i = part.first;
    while i < part.width {
        #[unroll]
        for j in 0..chunk {
            if i + j * part.step < part.width {
                let at = part.base + i + j * part.step;
                sum += f32::cast_from(probabilities[at]) * f32::cast_from(grad[at]);
            }
        }
        i += part.step * chunk;
    }
    let dot = group.sum(sum);
    let mut i = part.first;
    while i < part.width {
        #[unroll]
        for j in 0..chunk {
            if i + j * part.step < part.width {
                let at = part.base + i + j * part.step;
                let p = f32::cast_from(probabilities[at]);
                let g = f32::cast_from(grad[at]);
                output[at] = F::cast_from(p * (g - dot) * scale);
            }
        }
        i += part.step * chunk;
    }
}
