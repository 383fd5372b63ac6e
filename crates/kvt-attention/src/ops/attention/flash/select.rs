//! Which keys of a row are kept, found by the units that share it.

use cubecl::prelude::*;

use super::tile::Team;
use crate::ops::knn_softmax::kernel::{ROUNDS, level_between, ordered_key};

/// The scores that a unit looks at: every `step`-th of a row from `first`.
#[derive(CubeType, Clone, Copy)]
pub(super) struct Part {
    pub base: usize,
    pub keys: usize,
    pub first: usize,
    pub step: usize,
}

/// Threshold and bound that keep `kept` of more keys, as in [`crate::ops::knn_softmax::kernel`]: by
/// value, then by bits, then by the index of those that tie. There the rows of a cube search each for
/// itself; here they put their counts together at barriers, so all teams search in step, one question
/// per turn, until none has one left. All units of the cube call it.
#[cube]
pub(super) fn select_keys(
    scores: &Shared<[f32]>,
    part: &Part,
    team: &mut Team,
    kept: u32,
    min_key: u32,
    max_key: u32,
    wanted: bool,
) -> (u32, u32) {
    // At least `kept` keys (`many`) reach `low`, fewer (`few`) reach `high`.
    let mut low = min_key;
    let mut high = max_key + 1u32;
    let mut many = part.keys as u32;
    let mut few = 0u32;
    // Of those that tie at `low`, all before `bound` are kept, and not all before `end`.
    let mut bound = 0u32;
    let mut end = part.keys as u32 + 1u32;

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
            while i < part.keys {
                let key = ordered_key::<f32>(scores[part.base + i]);
                let survives = key > above || (key == above && (i as u32) < before);
                count += select(survives, 1u32, 0u32);
                i += part.step;
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
