//! The selection of the kept keys of a row, by the threads of its row group; of equal ones by [the rule](crate::top_k#the-rule).

use cubecl::prelude::*;

use super::order_key::{key_value, ordered_key};
use super::row_group::{Part, RowGroup};

/// Rounds of the search by value, which separates distinct scores in about ten, before the search by bits, which always
/// terminates.
const ROUNDS: u32 = 24;

/// The order keys of the numbers that a thread reads, in registers: `count` keys, or none if `count` is 0.
#[derive(CubeType)]
pub(crate) struct Held {
    keys: Array<u32>,
    #[cube(comptime)]
    count: usize,
}

#[cube]
impl Held {
    /// Reads the part of a thread, which has at most `count` numbers.
    pub(crate) fn read<F: Float>(scores: &[F], part: &Part, #[comptime] count: usize) -> Held {
        let mut keys = Array::<u32>::new(comptime!(count.max(1)));
        #[unroll]
        for j in 0..count {
            let at = part.first + j * part.step;
            // Below every key, and therefore below every threshold.
            let mut key = 0u32;
            if at < part.width {
                key = ordered_key::<F>(scores[part.base + at]);
            }
            keys[j] = key;
        }
        Held { keys, count }
    }

    /// The key of the `j`-th number of the part; 0 past its end.
    pub(crate) fn key(&self, j: usize) -> u32 {
        self.keys[j]
    }
}

/// The next level of the search by value, if `many` keys are at least `low` and `few` at least `high`: interpolation
/// and bisection in turn.
#[cube]
fn level_between(low: u32, high: u32, many: u32, few: u32, kept: u32, round: u32) -> u32 {
    let from = key_value(low);
    let share = select(
        round & 1u32 == 0u32,
        (f32::cast_from(many - kept) + 0.5f32) / f32::cast_from(many - few),
        0.5f32,
    );
    ordered_key::<f32>(from + (key_value(high) - from) * share)
}

/// The threshold and bound that keep `kept` keys of a row with more: a key survives if it is above the threshold, or
/// equal to it at an index below the bound.
///
/// The search is by value, then by bits, then by the index of the ties, with one count per turn. Rows that share
/// barriers take turns together until all are done, so all threads of the workgroup must call this function, even for a
/// row that is not `wanted`.
///
/// Keys in `held` are not read again.
#[cube]
pub(crate) fn select_keys<F: Float>(
    scores: &[F],
    held: &Held,
    part: &Part,
    group: &mut RowGroup,
    kept: u32,
    min_key: u32,
    max_key: u32,
    wanted: bool,
    #[comptime] chunk: usize,
) -> (u32, u32) {
    // `many` keys are at least `low`, `few` at least `high`, with `few < kept <= many`.
    let mut low = min_key;
    let mut high = max_key + 1u32;
    let mut many = part.width as u32;
    let mut few = 0u32;
    // The ties at `low` before `bound` are all kept, but not all of those before `end`.
    let mut bound = 0u32;
    let mut end = part.width as u32 + 1u32;

    let mut threshold = 0u32;
    let mut searching = wanted;
    let mut round = 0u32;
    let mut going = true;
    while going {
        let mut level = low + (high - low) / 2u32;
        if round < ROUNDS {
            let by_value = level_between(low, high, many, few, kept, round);
            if by_value > low && by_value < high {
                level = by_value;
            } else {
                round = ROUNDS;
            }
        }
        let ties = high - low <= 1u32;
        let middle = bound + (end - bound) / 2u32;
        let above = select(ties, low, level - 1u32);
        let before = select(ties, middle, 0u32);

        let mut count = 0u32;
        if searching {
            if comptime!(held.count > 0) {
                let numbers = comptime!(held.count);
                #[unroll]
                for j in 0..numbers {
                    let key = held.key(j);
                    let at = part.first + j * part.step;
                    let survives = key > above || (key == above && (at as u32) < before);
                    count += select(survives, 1u32, 0u32);
                }
            } else {
                let mut i = part.first;
                while i < part.width {
                    #[unroll]
                    for j in 0..chunk {
                        let at = i + j * part.step;
                        if at < part.width {
                            let key = ordered_key::<F>(scores[part.base + at]);
                            let survives = key > above || (key == above && (at as u32) < before);
                            count += select(survives, 1u32, 0u32);
                        }
                    }
                    i += part.step * chunk;
                }
            }
        }
        let (count, any) = group.count(count, searching);
        if searching {
            round += 1u32;
            if ties {
                if count <= kept {
                    bound = middle;
                } else {
                    end = middle;
                }
                if end - bound <= 1u32 {
                    threshold = low;
                    searching = false;
                }
            } else if count == kept {
                threshold = above;
                searching = false;
            } else if count > kept {
                low = level;
                many = count;
            } else {
                high = level;
                few = count;
            }
        }
        going = any;
    }
    (threshold, bound)
}
