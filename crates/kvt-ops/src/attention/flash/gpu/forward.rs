//! The forward kernel: a workgroup computes the scores of a few queries with all keys in its shared memory, selects the
//! kept keys, and sums their values.
//!
//! Its threads divide the work in three ways, one after another, with a barrier wherever one reads what another has written: by keys
//! for the scores, by rows for the softmax, by columns for the output.

use cubecl::prelude::*;

use super::plan::FlashPlan;
use super::row::saved_words;
use super::tile::{Block, Sums, Tile};
use crate::gpu::order_key::{INFINITY, NEGATIVE_INFINITY, key_value, ordered_key, survivor_exp};
use crate::gpu::row_group::{Part, RowGroup};
use crate::gpu::select::{Held, select_keys};

/// `softmax(top_k(scale Q K^T)) V`, with the row statistics of [`super::saved`].
#[cube(launch, address_type = "dynamic")]
pub(super) fn flash_forward_kernel<F: Float, N: Size, M: Size>(
    q: &Tensor<Vector<F, N>>,
    k: &Tensor<Vector<F, N>>,
    v: &Tensor<Vector<F, M>>,
    out: &mut Tensor<Vector<F, M>>,
    saved: &mut Tensor<u32>,
    heads: u32,
    queries: u32,
    keys: u32,
    kept: u32,
    scale: f32,
    #[comptime] plan: FlashPlan,
    #[define(F)] _dtype: ElemType,
) {
    let queries = queries as usize;
    let keys = keys as usize;
    let block = Block::new(queries, plan.rows);
    if block.head >= heads as usize {
        terminate!();
    }
    let first_row = block.head * queries + block.first;
    let first_key = block.head * keys;
    let present = block.present;

    // Scores, one key per thread at a time, with all queries of the workgroup.
    let tile = Tile::<N>::load::<F>(q, first_row, present, scale, plan.head, plan);
    sync_cube();
    let mut scores = Shared::<[f32]>::new_slice(comptime!(plan.rows * plan.capacity));
    let mut row_products = Array::<f32>::new(plan.rows);
    let mut key = UNIT_POS as usize;
    while key < keys {
        let at = (first_key + key) * plan.head;
        tile.products::<F>(k, at, 1.0f32, &mut row_products);
        #[unroll]
        for row in 0..plan.rows {
            scores[row * plan.capacity + key] = row_products[row];
        }
        key += plan.units;
    }
    sync_cube();

    // The softmax of the kept keys, one row per group of threads. Groups without a query take part, too: the barriers are
    // those of all threads.
    let group_size = comptime!(plan.group_size());
    let row = UNIT_POS as usize / group_size;
    let member = UNIT_POS as usize % group_size;
    let part = Part {
        row,
        base: row * plan.capacity,
        width: keys,
        first: member,
        step: group_size,
    };
    let mut group = RowGroup::new(comptime!(plan.row_strategy()));
    let mut max_key = 0u32;
    let mut min_key = 0xffff_ffffu32;
    let mut i = part.first;
    while i < keys {
        let key = ordered_key::<f32>(scores[part.base + i]);
        max_key = select(key > max_key, key, max_key);
        min_key = select(key < min_key, key, min_key);
        i += part.step;
    }
    let max_key = group.max(max_key);
    // The minimum, as a maximum of complements.
    let min_key = 0xffff_ffffu32 - group.max(0xffff_ffffu32 - min_key);
    // The row contains NaN or +inf, or only -inf: the softmax is undefined.
    let broken = max_key >= INFINITY || max_key <= NEGATIVE_INFINITY;
    // Below every key: all survive.
    let mut threshold = 0u32;
    let mut bound = 0u32;
    if comptime!(plan.select) {
        let wanted = !broken && row < present;
        // No keys in registers: the scores are in shared memory already.
        let held = Held::read::<f32>(&scores, &part, 0usize);
        let (found, places) = select_keys::<f32>(
            &scores, &held, &part, &mut group, kept, min_key, max_key, wanted, 1usize,
        );
        threshold = found;
        bound = places;
    }
    // From scores to weights, in place. They are divided by their sum only in the output, which has fewer numbers.
    let max = key_value(max_key);
    let mut sum = 0.0f32;
    let mut i = part.first;
    while i < keys {
        let weight = survivor_exp::<f32>(scores[part.base + i], i as u32, max, threshold, bound);
        scores[part.base + i] = weight;
        sum += weight;
        i += part.step;
    }
    // This includes a barrier, after which all weights are written.
    let sum = group.sum(sum);
    let nan = f32::reinterpret(max_key | 0x7fff_ffffu32);
    // What the rows of the output are divided by.
    let mut totals = Shared::<[f32]>::new_slice(plan.rows);
    if member == 0 {
        totals[row] = select(broken, nan, sum);
    }
    if row < present {
        // For the gradients: maximum, sum, and one bit for each key, word by word.
        let words = saved_words(keys, plan.select);
        let at = (first_row + row) * words;
        if member == 0 {
            saved[at] = u32::reinterpret(select(broken, nan, max));
            saved[at + 1] = u32::reinterpret(sum);
        }
        if comptime!(plan.select) {
            let mut word = member;
            while word + 2 < words {
                let mut bits = 0u32;
                for bit in 0..32u32 {
                    let i = word * 32 + bit as usize;
                    if i < keys {
                        let is_kept = broken || scores[part.base + i] > 0.0f32;
                        bits |= select(is_kept, 1u32, 0u32) << bit;
                    }
                }
                saved[at + 2 + word] = bits;
                word += group_size;
            }
        }
    }
    sync_cube();

    // The output, one column per thread.
    let mut sums = Sums::<M>::new(plan.value, 1usize, plan);
    sums.accumulate::<F>(v, first_key, keys, &scores, 0usize);
    sums.merge();
    if sums.are_whole() {
        #[unroll]
        for i in 0..comptime!(sums.spread.rows) {
            let row = sums.row + i;
            if row < present {
                let value = sums.values[i] / Vector::new(totals[row]);
                out[(first_row + row) * plan.value + sums.column] = Vector::cast_from(value);
            }
        }
    }
}
