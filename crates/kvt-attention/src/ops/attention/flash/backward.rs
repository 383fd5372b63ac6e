//! The backward kernels: both make the scores again, tile by tile, and turn them into probabilities
//! by what the forward pass saved of their rows. Nothing is added to memory, so that the sums have
//! one order: one kernel goes over the keys of a few queries, the other over the queries of a few keys.

use cubecl::prelude::*;

use super::forward::saved_words;
use super::plan::Plan;
use super::tile::{Lane, Team, accumulate, load, merge, products};

/// The probability of a key from its score.
#[cube]
fn probability(
    score: f32,
    saved: &Tensor<f32>,
    row: usize,
    key: usize,
    words: usize,
    #[comptime] select: bool,
) -> f32 {
    let mut probability = (score - saved[row * words]).exp();
    if comptime!(select) {
        let word = u32::reinterpret(saved[row * words + 1 + key / 32]);
        if (word >> (key % 32) as u32) & 1u32 == 0u32 {
            probability = 0.0f32;
        }
    }
    probability
}

/// The gradient of the queries, and of every row `sum(dP * P)`, which [`flash_backward_keys_kernel`]
/// needs.
///
/// That sum is known after all keys only. The gradient `sum(P * (dP - sum(dP * P)) * k)` is made of
/// two sums therefore, of `P * dP * k` and of `P * k`.
#[cube(launch, address_type = "dynamic")]
pub(super) fn flash_backward_queries_kernel<F: Float, N: Size, M: Size>(
    q: &Tensor<Vector<F, N>>,
    k: &Tensor<Vector<F, N>>,
    v: &Tensor<Vector<F, M>>,
    grad: &Tensor<Vector<F, M>>,
    saved: &Tensor<f32>,
    q_grad: &mut Tensor<Vector<F, N>>,
    means: &mut Tensor<f32>,
    heads: u32,
    queries: u32,
    keys: u32,
    scale: f32,
    #[comptime] plan: Plan,
    #[define(F)] _dtype: ElemType,
) {
    let queries = queries as usize;
    let keys = keys as usize;
    let words = saved_words(keys, plan.select);
    let blocks = queries.div_ceil(plan.rows);
    let head = CUBE_POS / blocks;
    if head >= heads as usize {
        terminate!();
    }
    let first = CUBE_POS % blocks * plan.rows;
    let first_row = head * queries + first;
    let first_key = head * keys;
    let present = queries - first;

    let mut q_tile = Shared::<[Vector<f32, N>]>::new_slice(comptime!(plan.rows * plan.head));
    let mut grad_tile = Shared::<[Vector<f32, M>]>::new_slice(comptime!(plan.rows * plan.value));
    load::<F, N>(
        q,
        &mut q_tile,
        first_row,
        present,
        plan.rows,
        plan.head,
        plan.units,
    );
    load::<F, M>(
        grad,
        &mut grad_tile,
        first_row,
        present,
        plan.rows,
        plan.value,
        plan.units,
    );
    // P * dP of a row and then P, for a tile of keys.
    let mut weights = Shared::<[f32]>::new_slice(comptime!(plan.rows * plan.capacity));
    let spread = comptime!(plan.spread(plan.head));
    let lane = Lane::new(spread);
    let mut sums = Array::<Vector<f32, N>>::new(comptime!(spread.rows));
    let mut plain_sums = Array::<Vector<f32, N>>::new(comptime!(spread.rows));
    #[unroll]
    for i in 0..comptime!(spread.rows) {
        sums[i] = Vector::new(0.0f32);
        plain_sums[i] = Vector::new(0.0f32);
    }
    let mut scores = Array::<f32>::new(plan.rows);
    let mut gains = Array::<f32>::new(plan.rows);
    let mut parts = Array::<f32>::new(plan.rows);
    #[unroll]
    for row in 0..plan.rows {
        parts[row] = 0.0f32;
    }

    let mut start = 0usize;
    while start < keys {
        sync_cube();
        let key = start + UNIT_POS as usize;
        if key < keys {
            let at = first_key + key;
            products::<F, N>(
                k,
                at * plan.head,
                &q_tile,
                &mut scores,
                plan.rows,
                plan.head,
            );
            products::<F, M>(
                v,
                at * plan.value,
                &grad_tile,
                &mut gains,
                plan.rows,
                plan.value,
            );
            #[unroll]
            for row in 0..plan.rows {
                let mut p = 0.0f32;
                if row < present {
                    let score = scores[row] * scale;
                    p = probability(score, saved, first_row + row, key, words, plan.select);
                }
                let gain = p * gains[row];
                parts[row] += gain;
                let at = row * plan.capacity + UNIT_POS as usize;
                weights[at] = gain;
                weights[at + plan.units] = p;
            }
        }
        sync_cube();
        let count = select(
            keys - start < plan.units,
            keys - start,
            plan.units.runtime(),
        );
        let from = first_key + start;
        accumulate::<F, N>(
            k,
            from,
            count,
            &weights,
            0,
            &mut sums,
            &lane,
            plan.capacity,
            spread,
        );
        accumulate::<F, N>(
            k,
            from,
            count,
            &weights,
            plan.units,
            &mut plain_sums,
            &lane,
            plan.capacity,
            spread,
        );
        start += plan.units;
    }

    // The sums over all keys, a row per team.
    sync_cube();
    #[unroll]
    for row in 0..plan.rows {
        weights[row * plan.capacity + UNIT_POS as usize] = parts[row];
    }
    sync_cube();
    let team_size = comptime!(plan.team());
    let row = UNIT_POS as usize / team_size;
    let member = UNIT_POS as usize % team_size;
    let mut sum = 0.0f32;
    let mut i = member;
    while i < plan.units {
        sum += weights[row * plan.capacity + i];
        i += team_size;
    }
    let mut team = Team::new(plan.units, team_size);
    let mean = team.sum(sum);
    let mut row_means = Shared::<[f32]>::new_slice(plan.rows);
    if member == 0 {
        row_means[row] = mean;
        if row < present {
            means[first_row + row] = mean;
        }
    }
    sync_cube();

    merge::<N>(&mut sums, &lane, plan.units, spread);
    merge::<N>(&mut plain_sums, &lane, plan.units, spread);
    if lane.busy && lane.slice == 0 {
        #[unroll]
        for i in 0..comptime!(spread.rows) {
            let row = lane.row + i;
            if row < present {
                let mean = Vector::new(row_means[row]);
                let value = (sums[i] - plain_sums[i] * mean) * Vector::new(scale);
                q_grad[(first_row + row) * plan.head + lane.column] = Vector::cast_from(value);
            }
        }
    }
}

/// The gradients of keys and values.
#[cube(launch, address_type = "dynamic")]
pub(super) fn flash_backward_keys_kernel<F: Float, N: Size, M: Size>(
    q: &Tensor<Vector<F, N>>,
    k: &Tensor<Vector<F, N>>,
    v: &Tensor<Vector<F, M>>,
    grad: &Tensor<Vector<F, M>>,
    saved: &Tensor<f32>,
    means: &Tensor<f32>,
    k_grad: &mut Tensor<Vector<F, N>>,
    v_grad: &mut Tensor<Vector<F, M>>,
    heads: u32,
    queries: u32,
    keys: u32,
    scale: f32,
    #[comptime] plan: Plan,
    #[define(F)] _dtype: ElemType,
) {
    let queries = queries as usize;
    let keys = keys as usize;
    let words = saved_words(keys, plan.select);
    let blocks = keys.div_ceil(plan.rows);
    let head = CUBE_POS / blocks;
    if head >= heads as usize {
        terminate!();
    }
    let first = CUBE_POS % blocks * plan.rows;
    let first_key = head * keys + first;
    let first_row = head * queries;
    let present = keys - first;

    let mut k_tile = Shared::<[Vector<f32, N>]>::new_slice(comptime!(plan.rows * plan.head));
    let mut v_tile = Shared::<[Vector<f32, M>]>::new_slice(comptime!(plan.rows * plan.value));
    load::<F, N>(
        k,
        &mut k_tile,
        first_key,
        present,
        plan.rows,
        plan.head,
        plan.units,
    );
    load::<F, M>(
        v,
        &mut v_tile,
        first_key,
        present,
        plan.rows,
        plan.value,
        plan.units,
    );
    // The gradient of the scores of a key and then P, for a tile of queries.
    let mut weights = Shared::<[f32]>::new_slice(comptime!(plan.rows * plan.capacity));
    let k_spread = comptime!(plan.spread(plan.head));
    let v_spread = comptime!(plan.spread(plan.value));
    let k_lane = Lane::new(k_spread);
    let v_lane = Lane::new(v_spread);
    let mut k_sums = Array::<Vector<f32, N>>::new(comptime!(k_spread.rows));
    let mut v_sums = Array::<Vector<f32, M>>::new(comptime!(v_spread.rows));
    #[unroll]
    for i in 0..comptime!(k_spread.rows) {
        k_sums[i] = Vector::new(0.0f32);
    }
    #[unroll]
    for i in 0..comptime!(v_spread.rows) {
        v_sums[i] = Vector::new(0.0f32);
    }
    let mut scores = Array::<f32>::new(plan.rows);
    let mut gains = Array::<f32>::new(plan.rows);

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
                plan.rows,
                plan.head,
            );
            products::<F, M>(
                grad,
                at * plan.value,
                &v_tile,
                &mut gains,
                plan.rows,
                plan.value,
            );
            let mean = means[at];
            #[unroll]
            for row in 0..plan.rows {
                let mut p = 0.0f32;
                if row < present {
                    let score = scores[row] * scale;
                    p = probability(score, saved, at, first + row, words, plan.select);
                }
                let at = row * plan.capacity + UNIT_POS as usize;
                weights[at] = p * (gains[row] - mean) * scale;
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
            0,
            &mut k_sums,
            &k_lane,
            plan.capacity,
            k_spread,
        );
        accumulate::<F, M>(
            grad,
            from,
            count,
            &weights,
            plan.units,
            &mut v_sums,
            &v_lane,
            plan.capacity,
            v_spread,
        );
        start += plan.units;
    }
    merge::<N>(&mut k_sums, &k_lane, plan.units, k_spread);
    merge::<M>(&mut v_sums, &v_lane, plan.units, v_spread);
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
