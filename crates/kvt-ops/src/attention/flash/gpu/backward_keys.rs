//! The gradients of keys and values: as [`super::backward_queries`], over tiles of queries.

use cubecl::prelude::*;

use super::plan::FlashPlan;
use super::row::{probability, saved_words, word_of};
use super::tile::{Block, Sums, Tile};

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

    let k_tile = Tile::<N>::load::<F>(k, first_key, present, 1.0f32, plan.head, plan);
    let v_tile = Tile::<M>::load::<F>(v, first_key, present, 1.0f32, plan.value, plan);
    // dS of a key, followed by P, for a tile of queries.
    let mut weights = Shared::<[f32]>::new_slice(comptime!(plan.rows * plan.capacity));
    let mut k_sums = Sums::<N>::new(plan.head, 1usize, plan);
    let mut v_sums = Sums::<M>::new(plan.value, 1usize, plan);
    let mut scores = Array::<f32>::new(plan.rows);
    let mut dp = Array::<f32>::new(plan.rows);

    let mut start = 0usize;
    while start < queries {
        sync_cube();
        let query = start + UNIT_POS as usize;
        if query < queries {
            let at = first_row + query;
            k_tile.products::<F>(q, at * plan.head, scale, &mut scores);
            v_tile.products::<F>(d_out, at * plan.value, 1.0f32, &mut dp);
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
        k_sums.accumulate::<F>(q, from, count, &weights, 0usize);
        v_sums.accumulate::<F>(d_out, from, count, &weights, 1usize);
        start += plan.units;
    }
    k_sums.merge();
    v_sums.merge();
    k_sums.write::<F>(k_grad, first_key, present);
    v_sums.write::<F>(v_grad, first_key, present);
}
