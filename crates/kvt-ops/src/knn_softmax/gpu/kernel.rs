//! CubeCL kernels of k-NN softmax: one row group per row. The scores of short rows are read once, into registers; those
//! of longer rows stay in global memory and its caches, so that rows can have any length.

use cubecl::prelude::*;

use crate::gpu::order_key::{
    INFINITY, NEGATIVE_INFINITY, key_value, ordered_key, survivor_exp, survivor_key_exp,
};
use crate::gpu::row_group::{RowGroup, RowStrategy};
use crate::gpu::select::{Held, select_keys};

/// Probabilities of the `k` largest scores of each row, zero elsewhere. If `held` is not 0, a thread holds the keys of
/// its part of a row, at most `held`.
#[cube(launch, address_type = "dynamic")]
pub(super) fn knn_softmax_kernel<F: Float>(
    scores: &Tensor<F>,
    output: &mut Tensor<F>,
    rows: u32,
    keys: u32,
    k: u32,
    #[comptime] strategy: RowStrategy,
    #[comptime] chunk: usize,
    #[comptime] held: usize,
    #[define(F)] _dtype: ElemType,
) {
    let mut group = RowGroup::new(strategy);
    let part = group.part(rows, keys);
    let own = Held::read::<F>(scores.as_slice(), &part, held);
    let mut max_key = 0u32;
    let mut min_key = 0xffff_ffffu32;
    if comptime!(held > 0) {
        #[unroll]
        for j in 0..held {
            let key = own.key(j);
            max_key = select(key > max_key, key, max_key);
            // Key 0 marks padding.
            min_key = select(key < min_key && key > 0u32, key, min_key);
        }
    } else {
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
    }
    let max_key = group.max(max_key);
    // The minimum, as a maximum of complements.
    let min_key = 0xffff_ffffu32 - group.max(0xffff_ffffu32 - min_key);
    // The row contains NaN or +inf, or only -inf: the softmax is undefined.
    let broken = max_key >= INFINITY || max_key <= NEGATIVE_INFINITY;
    // Below every key: all survive.
    let mut threshold = 0u32;
    let mut bound = 0u32;
    if k < keys {
        let (found, places) = select_keys::<F>(
            scores.as_slice(),
            &own,
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
    let nan = f32::reinterpret(max_key | 0x7fff_ffffu32);
    let mut sum = 0.0f32;
    if comptime!(held > 0) {
        let mut weights = Array::<f32>::new(comptime!(held.max(1)));
        #[unroll]
        for j in 0..held {
            let at = part.first + j * part.step;
            let weight = survivor_key_exp(own.key(j), at as u32, max, threshold, bound);
            weights[j] = weight;
            sum += weight;
        }
        let total = group.sum(sum);
        #[unroll]
        for j in 0..held {
            let at = part.first + j * part.step;
            if at < part.width {
                output[part.base + at] = F::cast_from(select(broken, nan, weights[j] / total));
            }
        }
    } else {
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
}

/// The gradient of the scores, multiplied by `scale`: `scale P (dP - sum(P dP))`.
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
