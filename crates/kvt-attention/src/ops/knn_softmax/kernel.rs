//! CubeCL kernels. Where the device has plane (subgroup, warp) operations, the units of a plane share
//! a row; elsewhere a unit has a row for itself. Either way there is neither a barrier nor shared
//! memory, and rows have any length that a score matrix has: what differs is how partial results are put together.

use cubecl::prelude::*;

/// Rounds of the search by value, which tells distinct scores apart in about ten, before the search
/// by bits, which always ends.
pub(in crate::ops) const ROUNDS: u32 = 24;

/// The part of a row that a unit looks at: every `step`-th score from `first`.
#[derive(CubeType, Clone, Copy)]
struct Part {
    base: usize,
    keys: usize,
    first: usize,
    step: usize,
}

#[cube]
impl Part {
    /// The row of this unit, and its part of it. Row numbers may be past the last row.
    fn new(keys: u32, #[comptime] plane: bool) -> (usize, Part) {
        let mut row = ABSOLUTE_POS;
        let mut first = 0usize;
        let mut step = 1usize;
        if comptime!(plane) {
            row = CUBE_POS * CUBE_DIM_Y as usize + UNIT_POS_Y as usize;
            first = UNIT_POS_X as usize;
            step = CUBE_DIM_X as usize;
        }
        let part = Part {
            base: row * keys as usize,
            keys: keys as usize,
            first,
            step,
        };
        (row, part)
    }
}

/// The sum over the units that share a row.
#[cube]
fn total_sum<N: Numeric>(value: N, #[comptime] plane: bool) -> N {
    if comptime!(plane) {
        plane_sum(value)
    } else {
        value
    }
}

/// The largest of the units that share a row.
#[cube]
fn total_max(value: u32, #[comptime] plane: bool) -> u32 {
    if comptime!(plane) {
        plane_max(value)
    } else {
        value
    }
}

/// A u32 whose unsigned order is the order of the floats. Both zeros map to one key, and every NaN
/// to the largest: shader compilers may assume that there is none, so it is found by its bits.
#[cube]
pub(in crate::ops) fn ordered_key<F: Float>(value: F) -> u32 {
    let value = f32::cast_from(value);
    let bits = u32::reinterpret(value);
    let bits = select(bits & 0x7fff_ffffu32 > 0x7f80_0000u32, 0x7fff_ffffu32, bits);
    let bits = select(bits == 0x8000_0000u32, 0u32, bits);
    let mask = select(bits >> 31u32 == 1u32, 0xffff_ffffu32, 0x8000_0000u32);
    bits ^ mask
}

/// The key of -inf.
pub(in crate::ops) const NEGATIVE_INFINITY: u32 = 0x007f_ffff;
/// The key of +inf; only NaN's is larger.
pub(in crate::ops) const INFINITY: u32 = 0xff80_0000;

/// The float that [`ordered_key`] came from.
#[cube]
pub(in crate::ops) fn key_value(key: u32) -> f32 {
    let mask = select(key >> 31u32 == 1u32, 0x8000_0000u32, 0xffff_ffffu32);
    f32::reinterpret(key ^ mask)
}

/// The next level of a search by value for the k-th largest key, of which there are `many` from `low`
/// and `few` from `high`: interpolation and bisection in turn.
#[cube]
pub(in crate::ops) fn level_between(
    low: u32,
    high: u32,
    many: u32,
    few: u32,
    k: u32,
    round: u32,
) -> u32 {
    let from = key_value(low);
    let share = select(
        round & 1u32 == 0u32,
        (f32::cast_from(many - k) + 0.5f32) / f32::cast_from(many - few),
        0.5f32,
    );
    ordered_key::<f32>(from + (key_value(high) - from) * share)
}

/// How many keys of the row are at least `level`.
#[cube]
fn count_from<F: Float>(
    scores: &Tensor<F>,
    part: &Part,
    level: u32,
    #[comptime] plane: bool,
    #[comptime] chunk: usize,
) -> u32 {
    let mut count = 0u32;
    let mut i = part.first;
    while i < part.keys {
        #[unroll]
        for j in 0..chunk {
            if i + j * part.step < part.keys {
                let key = ordered_key::<F>(scores[part.base + i + j * part.step]);
                count += select(key >= level, 1u32, 0u32);
            }
        }
        i += part.step * chunk;
    }
    total_sum::<u32>(count, plane)
}

/// Threshold and bound that keep `k` of more keys: a key survives if it is above the threshold, or
/// equal to it at an index below the bound.
#[cube]
fn select_keys<F: Float>(
    scores: &Tensor<F>,
    part: &Part,
    k: u32,
    min_key: u32,
    max_key: u32,
    #[comptime] plane: bool,
    #[comptime] chunk: usize,
) -> (u32, u32) {
    // At least k keys (`many`) reach `low`, fewer (`few`) reach `high`.
    let mut low = min_key;
    let mut high = max_key + 1u32;
    let mut many = part.keys as u32;
    let mut few = 0u32;
    let mut threshold = 0u32;
    let mut bound = 0u32;

    // By value.
    let mut found = false;
    let mut round = 0u32;
    while round < ROUNDS {
        let level = level_between(low, high, many, few, k, round);
        round += 1u32;
        if level > low && level < high {
            let count = count_from::<F>(scores, part, level, plane, chunk);
            if count == k {
                threshold = level - 1u32;
                found = true;
                round = ROUNDS;
            } else if count > k {
                low = level;
                many = count;
            } else {
                high = level;
                few = count;
            }
        } else {
            round = ROUNDS;
        }
    }

    if !found {
        // By bits: `low` becomes the k-th largest key.
        while high - low > 1u32 {
            let level = low + (high - low) / 2u32;
            let count = count_from::<F>(scores, part, level, plane, chunk);
            if count >= k {
                low = level;
            } else {
                high = level;
                few = count;
            }
        }
        threshold = low;
        // The places left go to the ties, lowest index first: the largest bound below which there
        // are no more ties than places.
        let places = k - few;
        let mut end = part.keys as u32 + 1u32;
        while end - bound > 1u32 {
            let middle = bound + (end - bound) / 2u32;
            let mut count = 0u32;
            let mut i = part.first;
            while i < middle as usize {
                #[unroll]
                for j in 0..chunk {
                    if i + j * part.step < middle as usize {
                        let key = ordered_key::<F>(scores[part.base + i + j * part.step]);
                        count += select(key == threshold, 1u32, 0u32);
                    }
                }
                i += part.step * chunk;
            }
            if total_sum::<u32>(count, plane) <= places {
                bound = middle;
            } else {
                end = middle;
            }
        }
    }
    (threshold, bound)
}

#[cube(launch, address_type = "dynamic")]
pub(super) fn knn_softmax_kernel<F: Float>(
    scores: &Tensor<F>,
    output: &mut Tensor<F>,
    rows: u32,
    keys: u32,
    k: u32,
    #[comptime] plane: bool,
    #[comptime] chunk: usize,
    #[define(F)] _dtype: ElemType,
) {
    let (row, part) = Part::new(keys, plane);
    if row >= rows as usize {
        terminate!();
    }
    let mut max_key = 0u32;
    let mut min_key = 0xffff_ffffu32;
    let mut i = part.first;
    while i < part.keys {
        #[unroll]
        for j in 0..chunk {
            if i + j * part.step < part.keys {
                let key = ordered_key::<F>(scores[part.base + i + j * part.step]);
                max_key = select(key > max_key, key, max_key);
                min_key = select(key < min_key, key, min_key);
            }
        }
        i += part.step * chunk;
    }
    let max_key = total_max(max_key, plane);
    // The smallest is the largest of what is missing.
    let min_key = 0xffff_ffffu32 - total_max(0xffff_ffffu32 - min_key, plane);
    // A NaN or +inf in the row, or nothing but -inf: the softmax has no value.
    let broken = max_key >= INFINITY || max_key <= NEGATIVE_INFINITY;
    // Below every key, where all survive.
    let mut threshold = 0u32;
    let mut bound = 0u32;
    if k < keys && !broken {
        let (found, places) = select_keys::<F>(scores, &part, k, min_key, max_key, plane, chunk);
        threshold = found;
        bound = places;
    }

    // Softmax over the survivors, accumulated in f32.
    let max = key_value(max_key);
    let mut sum = 0.0f32;
    let mut i = part.first;
    while i < part.keys {
        #[unroll]
        for j in 0..chunk {
            if i + j * part.step < part.keys {
                sum += weight::<F>(
                    scores[part.base + i + j * part.step],
                    (i + j * part.step) as u32,
                    max,
                    threshold,
                    bound,
                );
            }
        }
        i += part.step * chunk;
    }
    let total = total_sum::<f32>(sum, plane);
    let nan = f32::reinterpret(max_key | 0x7fff_ffffu32);
    let mut i = part.first;
    while i < part.keys {
        #[unroll]
        for j in 0..chunk {
            if i + j * part.step < part.keys {
                let weight = weight::<F>(
                    scores[part.base + i + j * part.step],
                    (i + j * part.step) as u32,
                    max,
                    threshold,
                    bound,
                );
                output[part.base + i + j * part.step] =
                    F::cast_from(select(broken, nan, weight / total));
            }
        }
        i += part.step * chunk;
    }
}

/// `exp(score - max)` of a survivor, else 0.
#[cube]
pub(in crate::ops) fn weight<F: Float>(
    score: F,
    index: u32,
    max: f32,
    threshold: u32,
    bound: u32,
) -> f32 {
    let key = ordered_key::<F>(score);
    let kept = key > threshold || (key == threshold && index < bound);
    let mut weight = 0.0f32;
    if kept && key > NEGATIVE_INFINITY {
        weight = (f32::cast_from(score) - max).exp();
    }
    weight
}

#[cube(launch, address_type = "dynamic")]
pub(super) fn knn_softmax_backward_kernel<F: Float>(
    probabilities: &Tensor<F>,
    grad: &Tensor<F>,
    output: &mut Tensor<F>,
    rows: u32,
    keys: u32,
    #[comptime] plane: bool,
    #[comptime] chunk: usize,
    #[define(F)] _dtype: ElemType,
) {
    let (row, part) = Part::new(keys, plane);
    if row >= rows as usize {
        terminate!();
    }
    let mut sum = 0.0f32;
    let mut i = part.first;
    while i < part.keys {
        #[unroll]
        for j in 0..chunk {
            if i + j * part.step < part.keys {
                let at = part.base + i + j * part.step;
                sum += f32::cast_from(probabilities[at]) * f32::cast_from(grad[at]);
            }
        }
        i += part.step * chunk;
    }
    let dot = total_sum::<f32>(sum, plane);
    let mut i = part.first;
    while i < part.keys {
        #[unroll]
        for j in 0..chunk {
            if i + j * part.step < part.keys {
                let at = part.base + i + j * part.step;
                let p = f32::cast_from(probabilities[at]);
                let g = f32::cast_from(grad[at]);
                output[at] = F::cast_from(p * (g - dot));
            }
        }
        i += part.step * chunk;
    }
}
