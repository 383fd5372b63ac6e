//! The gradients of keys and values: as [`super::backward_queries`], over tiles of queries.

use cubecl::prelude::*;

use super::plan::FlashPlan;
use super::row::{probability, saved_words, word_of};
use super::tile::{Block, Lane, accumulate, clear, load, merge, products};

/// `dK = scale dS^T Q` with `dS = P (dP - delta)`, and `dV = P^T dO`.
#[cube(launch, address_type = "dynamic")]
pub(super) fn flash_backward_keys_kernel<F: Float, N: Size, M: Size>(
    q: &Tensor<Vector<F, N>>,
    k: &Tensor<Vector<F, N>>,
    v: &Tensor<Vector<F, M>>,
    d_out: &Tensor<Vector<F, M>>,
    saved: &Tensor<u32>,
    delta: &Tensor<f32>,
    k_grad: &mut Tensor<Vector<F, N>>,
    v_grad: &mut Tensor<Vector<F, M>>,
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
    let block = Block::new(keys, plan.rows);
    if block.head >= heads as usize {
        terminate!();
    }
    let first = block.first;
    let first_key = block.head * keys + first;
    let first_row = block.head * queries;
    let present = block.present;

    let mut k_tile = Shared::<[Vector<f32, N>]>::new_slice(comptime!(plan.rows * plan.head));
    let mut v_tile = Shared::<[Vector<f32, M>]>::new_slice(comptime!(plan.rows * plan.value));
    load::<F, N>(
        k,
        &mut k_tile,
        first_key,
        present,
        1.0f32,
        plan.rows,
        plan.head,
        plan.units,
    );
    load::<F, M>(
        v,
        &mut v_tile,
        first_key,
        present,
        1.0f32,
        plan.rows,
        plan.value,
        plan.units,
    );
    // dS of a key, followed by P, for a tile of queries.
    let mut weights = Shared::<[f32]>::new_slice(comptime!(plan.rows * plan.capacity));
    let k_spread = comptime!(plan.spread(plan.head));
    let v_spread = comptime!(plan.spread(plan.value));
    let k_lane = Lane::new(k_spread);
    let v_lane = Lane::new(v_spread);
    let mut k_sums = Array::<Vector<f32, N>>::new(comptime!(k_spread.rows));
    let mut v_sums = Array::<Vector<f32, M>>::new(comptime!(v_spread.rows));
    clear::<N>(&mut k_sums, comptime!(k_spread.rows));
    clear::<M>(&mut v_sums, comptime!(v_spread.rows));
    let mut scores = Array::<f32>::new(plan.rows);
    let mut dp = Array::<f32>::new(plan.rows);

    let mut start = 0usize;
    while start < queries {
        sync_cube();
        let query = start + UNIT_POS as usize;
        if query < queries {
            let at = first_row + query;
            products::<F, N>(
                q,
                at * plan.head,
                &k_tile,
                &mut scores,
                scale,
                plan.rows,
                plan.head,
            );
            products::<F, M>(
                d_out,
                at * plan.value,
                &v_tile,
                &mut dp,
                1.0f32,
                plan.rows,
                plan.value,
            );
            let (max, sum) = (saved[at * words], saved[at * words + 1]);
            // One word is enough: a workgroup starts at a key that is a multiple of its number of keys, a small power of two.
            let word = word_of(saved, at * words, first, plan.select);
            let row_delta = delta[at];
            #[unroll]
            for row in 0..plan.rows {
                let mut p = 0.0f32;
                if row < present {
                    p = probability(scores[row], max, sum, word, first + row, plan.select);
                }
                let at = row * plan.capacity + UNIT_POS as usize;
                weights[at] = p * (dp[row] - row_delta) * scale;
                weights[at + plan.units] = p;
            }
        }
        sync_cube();
        let count = select(
            queries - start < plan.units,
            queries - start,
            plan.units.runtime(),
        );
        let from = first_row + start;
        accumulate::<F, N>(
            q,
            from,
            count,
            &weights,
            &mut k_sums,
            &k_lane,
            comptime!(plan.layout(0, 1)),
            k_spread,
        );
        accumulate::<F, M>(
            d_out,
            from,
            count,
            &weights,
            &mut v_sums,
            &v_lane,
            comptime!(plan.layout(1, 1)),
            v_spread,
        );
        start += plan.units;
    }
    merge::<N>(&mut k_sums, &k_lane, plan.units, 1usize, k_spread);
    merge::<M>(&mut v_sums, &v_lane, plan.units, 1usize, v_spread);
    if k_lane.busy && k_lane.slice == 0 {
        #[unroll]
        for i in 0..comptime!(k_spread.rows) {
            let row = k_lane.row + i;
            if row < present {
                let at = (first_key + row) * plan.head + k_lane.column;
                k_grad[at] = Vector::cast_from(k_sums[i]);
            }
        }
    }
    if v_lane.busy && v_lane.slice == 0 {
        #[unroll]
        for i in 0..comptime!(v_spread.rows) {
            let row = v_lane.row + i;
            if row < present {
                let at = (first_key + row) * plan.value + v_lane.column;
                v_grad[at] = Vector::cast_from(v_sums[i]);
            }
        }
    }
}
