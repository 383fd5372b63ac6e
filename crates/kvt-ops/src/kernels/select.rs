//! Which keys of a row are kept, found by the units that have it together.

use cubecl::prelude::*;

use super::keys::{key_value, ordered_key};
use super::team::{Part, Team};

/// Rounds of the search by value, which tells distinct scores apart in about ten, before the search
/// by bits, which always ends.
const ROUNDS: u32 = 24;

/// The next level of a search by value for the k-th largest key, of which there are `many` from `low`
/// and `few` from `high`: interpolation and bisection in turn.
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

/// Threshold and bound that keep `kept` of more keys: a key survives if it is above the threshold, or
/// equal to it at an index below the bound. The search goes by value, then by bits, then by the index of
/// those that tie, one question per turn; rows that meet at barriers search in step, until none has a
/// question left. All units of the cube call it, those of a row that is not `wanted` too.
#[cube]
pub(crate) fn select_keys<F: Float>(
    scores: &[F],
    part: &Part,
    team: &mut Team,
    kept: u32,
    min_key: u32,
    max_key: u32,
    wanted: bool,
    #[comptime] chunk: usize,
) -> (u32, u32) {
    // At least `kept` keys (`many`) reach `low`, fewer (`few`) reach `high`.
    let mut low = min_key;
    let mut high = max_key + 1u32;
    let mut many = part.width as u32;
    let mut few = 0u32;
    // Of those that tie at `low`, all before `bound` are kept, and not all before `end`.
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
        let (count, any) = team.count(count, searching);
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
