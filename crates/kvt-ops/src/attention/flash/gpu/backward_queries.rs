//! The gradient of the queries: the scores are computed again, tile by tile of keys, and turned into probabilities with
//! the saved row statistics. There are no atomic additions, so that the order of summation is fixed.

use cubecl::prelude::*;

use super::plan::FlashPlan;
use super::row::{probability, saved_words, word_of};
use super::tile::{Block, Sums, Tile};
use crate::gpu::row_group::RowGroup;

/// The gradient of the queries, and `delta = sum(P dP)` of every row, which [`super::backward_keys`] needs.
///
/// With `dP = dO V^T`, the gradient is `dQ = scale sum(P (dP - delta) K)`. `delta` is known only after all keys, so it is computed
/// from two sums, `scale (sum(P dP K) - delta sum(P K))`.
#[cube(launch, address_type = "dynamic")]
pub(super) fn flash_backward_queries_kernel<F: Float, N: Size, M: Size>(
    q: &Tensor<Vector<F, N>>,
    k: &Tensor<Vector<F, N>>,
    v: &Tensor<Vector<F, M>>,
    d_out: &Tensor<Vector<F, M>>,
    saved: &Tensor<u32>,
    q_grad: &mut Tensor<Vector<F, N>>,
    delta: &mut Tensor<f32>,
    heads: u32,
    queries: u32,
    keys: u32,
    scale: f32,
    #[comptime] plan: FlashPlan,
    #[define(F)] _dtype: ElemType,
) {
    let queries = queries as usize;
    let keys = keys as usize;
    let words = saved_words(keys, plan.select);
    let block = Block::new(queries, plan.rows);
    if block.head >= heads as usize {
        terminate!();
    }
    let first_row = block.head * queries + block.first;
    let first_key = block.head * keys;
    let present = block.present;

    let q_tile = Tile::<N>::load::<F>(q, first_row, present, scale, plan.head, plan);
    let grad_tile = Tile::<M>::load::<F>(d_out, first_row, present, 1.0f32, plan.value, plan);
    // Of each row P dP, followed by P, for a tile of keys: the weights of both sums.
    let mut weights = Shared::<[f32]>::new_slice(comptime!(plan.rows * plan.capacity));
    let mut sums = Sums::<N>::new(plan.head, 2usize, plan);
    let mut scores = Array::<f32>::new(plan.rows);
    let mut dp = Array::<f32>::new(plan.rows);
    // The sum of P dP over this thread's keys, row by row.
    let mut own_deltas = Array::<f32>::new(plan.rows);
    #[unroll]
    for row in 0..plan.rows {
        own_deltas[row] = 0.0f32;
    }

    let mut start = 0usize;
    while start < keys {
        // Until all threads have read the weights of the last tile.
        sync_cube();
        // One key per thread.
        let key = start + UNIT_POS as usize;
        if key < keys {
            let at = first_key + key;
            q_tile.products::<F>(k, at * plan.head, 1.0f32, &mut scores);
            grad_tile.products::<F>(v, at * plan.value, 1.0f32, &mut dp);
            #[unroll]
            for row in 0..plan.rows {
                let mut p = 0.0f32;
                if row < present {
                    let record = (first_row + row) * words;
                    let word = word_of(saved, record, key, plan.select);
                    p = probability(
                        scores[row],
                        saved[record],
                        saved[record + 1],
                        word,
                        key,
                        plan.select,
                    );
                }
                let p_dp = p * dp[row];
                own_deltas[row] += p_dp;
                let at = row * plan.capacity + UNIT_POS as usize;
                weights[at] = p_dp;
                weights[at + plan.units] = p;
            }
        }
        sync_cube();
        // One column per thread.
        let count = select(
            keys - start < plan.units,
            keys - start,
            plan.units.runtime(),
        );
        sums.accumulate::<F>(k, first_key + start, count, &weights, 0usize);
        start += plan.units;
    }

    // delta: the threads exchange their sums in the place of the weights, and a group of them adds up those of one row.
    sync_cube();
    #[unroll]
    for row in 0..plan.rows {
        weights[row * plan.capacity + UNIT_POS as usize] = own_deltas[row];
    }
    sync_cube();
    let group_size = comptime!(plan.group_size());
    let row = UNIT_POS as usize / group_size;
    let member = UNIT_POS as usize % group_size;
    let mut sum = 0.0f32;
    let mut i = member;
    while i < plan.units {
        sum += weights[row * plan.capacity + i];
        i += group_size;
    }
    let mut group = RowGroup::new(comptime!(plan.row_strategy()));
    let sum = group.sum(sum);
    let mut row_delta = Shared::<[f32]>::new_slice(plan.rows);
    if member == 0 {
        row_delta[row] = sum;
        if row < present {
            delta[first_row + row] = sum;
        }
    }
    sync_cube();

    sums.merge();
    if sums.are_whole() {
        #[unroll]
        for i in 0..comptime!(sums.spread.rows) {
            let row = sums.row + i;
            if row < present {
                let shift = Vector::new(row_delta[row]);
                let p_k = sums.values[comptime!(sums.spread.rows + i)];
                let value = (sums.values[i] - p_k * shift) * Vector::new(scale);
                q_grad[(first_row + row) * plan.head + sums.column] = Vector::cast_from(value);
            }
        }
    }
}
