//! The backward kernels: both make the scores again, tile by tile, and turn them into probabilities
//! by what the forward pass saved of their rows. Nothing is added to memory, so that the sums have
//! one order: one kernel goes over the keys of a few queries, the other over the queries of a few keys.

use cubecl::prelude::*;

use super::forward::saved_words;
use super::plan::Plan;
use super::tile::{Lane, Team, accumulate, clear, load, merge, products};

/// The probability of a key from its score and what was saved of the row: largest score, sum, and a
/// word that has the bit of the key.
#[cube]
fn probability(
    score: f32,
    max: u32,
    sum: u32,
    word: u32,
    key: usize,
    #[comptime] select: bool,
) -> f32 {
    let mut probability = (score - f32::reinterpret(max)).exp() / f32::reinterpret(sum);
    if comptime!(select) {
        let bit = (word >> (key % 32) as u32) & 1u32;
        if bit == 0u32 {
            probability = 0.0f32;
        }
    }
    probability
}

/// The word with the bit of a key; none where all are kept.
#[cube]
fn word_of(saved: &Tensor<u32>, row: usize, key: usize, #[comptime] select: bool) -> u32 {
    let mut word = 0u32;
    if comptime!(select) {
        word = saved[row + 2 + key / 32];
    }
    word
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
    saved: &Tensor<u32>,
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
        scale,
        plan.rows,
        plan.head,
        plan.units,
    );
    load::<F, M>(
        grad,
        &mut grad_tile,
        first_row,
        present,
        1.0f32,
        plan.rows,
        plan.value,
        plan.units,
    );
    // P * dP of a row and then P, for a tile of keys.
    let mut weights = Shared::<[f32]>::new_slice(comptime!(plan.rows * plan.capacity));
    let spread = comptime!(plan.spread(plan.head));
    let lane = Lane::new(spread);
    let mut sums = Array::<Vector<f32, N>>::new(comptime!(2 * spread.rows));
    clear::<N>(&mut sums, comptime!(2 * spread.rows));
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
                1.0f32,
                plan.rows,
                plan.head,
            );
            products::<F, M>(
                v,
                at * plan.value,
                &grad_tile,
                &mut gains,
                1.0f32,
                plan.rows,
                plan.value,
            );
            #[unroll]
            for row in 0..plan.rows {
                let mut p = 0.0f32;
                if row < present {
                    let at = (first_row + row) * words;
                    let word = word_of(saved, at, key, plan.select);
                    p = probability(
                        scores[row],
                        saved[at],
                        saved[at + 1],
                        word,
                        key,
                        plan.select,
                    );
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
            &mut sums,
            &lane,
            comptime!(plan.layout(0, 2)),
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

    merge::<N>(&mut sums, &lane, plan.units, 2usize, spread);
    if lane.busy && lane.slice == 0 {
        #[unroll]
        for i in 0..comptime!(spread.rows) {
            let row = lane.row + i;
            if row < present {
                let mean = Vector::new(row_means[row]);
                let plain = sums[comptime!(spread.rows + i)];
                let value = (sums[i] - plain * mean) * Vector::new(scale);
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
    saved: &Tensor<u32>,
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
    // The gradient of the scores of a key and then P, for a tile of queries.
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
                scale,
                plan.rows,
                plan.head,
            );
            products::<F, M>(
                grad,
                at * plan.value,
                &v_tile,
                &mut gains,
                1.0f32,
                plan.rows,
                plan.value,
            );
            let (max, sum) = (saved[at * words], saved[at * words + 1]);
            // The keys of a cube begin at a multiple of their number, a small power of two.
            let word = word_of(saved, at * words, first, plan.select);
            let mean = means[at];
            #[unroll]
            for row in 0..plan.rows {
                let mut p = 0.0f32;
                if row < present {
                    p = probability(scores[row], max, sum, word, first + row, plan.select);
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
            &mut k_sums,
            &k_lane,
            comptime!(plan.layout(0, 1)),
            k_spread,
        );
        accumulate::<F, M>(
            grad,
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
