//! The selection of the k largest of a row of scores, by [the rule](crate::top_k#the-rule) of ties.

use pulp::Simd;

use super::load;

/// Rounds of the search for the threshold before it gives up and partitions the row. Most rows take about ten, whether
/// their scores are distinct, tie, or differ greatly in magnitude.
const ROUNDS: usize = 24;

/// Scores that are compared with a value at a time.
const CHUNK: usize = 64;

/// The threshold and bound (see [`super::RowState`]) that keep exactly `k` values of a row of more than `k`, without
/// NaN, whose smallest and largest values are `low` and `high`.
#[inline(always)]
pub(super) fn select<S: Simd>(
    simd: S,
    row: &[f32],
    k: usize,
    low: f32,
    high: f32,
    scratch: &mut Vec<f32>,
) -> (f32, usize) {
    search(simd, row, k, low, high).unwrap_or_else(|| partition(row, k, scratch))
}

/// [`select`] without copying the row; `None` if it takes too many rounds, as with infinities.
///
/// Counts the values at or above a level, and moves the level by bisection and interpolation in turn until the count is
/// `k`; no branch depends on a single value. If a level separates no further values, or the first level hardly any (few
/// values are far from the rest), the search continues between the smallest and the largest of the remaining values. If
/// these two are equal, they are the threshold.
#[inline(always)]
fn search<S: Simd>(simd: S, row: &[f32], k: usize, low: f32, high: f32) -> Option<(f32, usize)> {
    // `many` values are at least `low`, `few` at least `high`.
    let (mut low, mut high) = (low, high.next_up());
    let (mut many, mut few) = (row.len(), 0);
    for round in 0..ROUNDS {
        let share = if round % 2 == 0 {
            ((many - k) as f32 + 0.5) / (many - few) as f32
        } else {
            0.5
        };
        let level = low + (high - low) * share;
        let inside = level > low && level < high;
        let count = if inside { count_from(row, level) } else { many };
        if count == k {
            return Some((level, row.len()));
        }
        let left = many - few;
        if count < k {
            (high, few) = (level, count);
        } else if inside {
            (low, many) = (level, count);
        }
        let hardly = round == 0 && 8 * (many - few) > 7 * left;
        if hardly || many - few == left {
            let (least, most) = between(simd, row, low, high);
            if least == most {
                return Some((least, nth_place(row, least, k - few)));
            }
            let most = most.next_up();
            if !inside && (least, most) == (low, high) {
                return None;
            }
            (low, high) = (least, most);
        }
    }
    None
}

/// How many values are at least `level`.
#[inline(always)]
fn count_from(row: &[f32], level: f32) -> usize {
    // The compiler vectorises this loop best.
    row.iter().map(|x| u32::from(*x >= level)).sum::<u32>() as usize
}

/// The smallest and the largest of the values in `low..high`; there is at least one.
#[inline(always)]
fn between<S: Simd>(simd: S, row: &[f32], low: f32, high: f32) -> (f32, f32) {
    let all = |value: f32| simd.splat_f32s(value);
    let (from, to) = (all(low), all(high));
    let (top, bottom) = (all(f32::INFINITY), all(f32::NEG_INFINITY));
    let (main, rest) = S::as_simd_f32s(row);
    let rest = load(simd, rest, high);
    let (mut least, mut most) = (top, bottom);
    for block in [main, &[rest]] {
        for &x in block {
            let above = simd.greater_than_or_equal_f32s(x, from);
            let within = simd.and_m32s(above, simd.less_than_f32s(x, to));
            least = simd.min_f32s(least, simd.select_f32s(within, x, top));
            most = simd.max_f32s(most, simd.select_f32s(within, x, bottom));
        }
    }
    (simd.reduce_min_f32s(least), simd.reduce_max_f32s(most))
}

/// The index after the `n`-th of the values that equal `value`, counted from 1.
#[inline(always)]
fn nth_place(row: &[f32], value: f32, n: usize) -> usize {
    let mut left = n;
    for (number, chunk) in row.chunks(CHUNK).enumerate() {
        let count = chunk.iter().map(|x| u32::from(*x == value)).sum::<u32>() as usize;
        if count >= left {
            let mut places = chunk.iter().enumerate().filter(|(_, x)| **x == value);
            if let Some((index, _)) = places.nth(left - 1) {
                return number * CHUNK + index + 1;
            }
        }
        left -= count;
    }
    row.len()
}

/// [`select`] by partitioning a copy of the row.
#[inline(never)]
fn partition(row: &[f32], k: usize, scratch: &mut Vec<f32>) -> (f32, usize) {
    scratch.clear();
    // Adding +0 turns -0 into +0: `total_cmp` distinguishes the two.
    scratch.extend(row.iter().map(|x| x + 0.0));
    let at = row.len() - k;
    let (_, &mut threshold, larger) = scratch.select_nth_unstable_by(at, f32::total_cmp);
    let above = larger.iter().filter(|x| **x > threshold).count();
    // Ties fill the remaining places.
    (threshold, nth_place(row, threshold, k - above))
}

#[cfg(test)]
pub(super) mod testing {
    /// The indices of the k largest values, by sorting.
    pub(in crate::cpu::softmax_row) fn best(row: &[f32], k: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..row.len()).collect();
        order.sort_by(|&a, &b| (row[b] + 0.0).total_cmp(&(row[a] + 0.0)).then(a.cmp(&b)));
        order.truncate(k);
        order.sort_unstable();
        order
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::panic, reason = "tests")]
    use pulp::{Arch, WithSimd};

    use super::testing::best;
    use super::*;
    use crate::cpu::softmax_row::extremes;

    struct Search<'a>(&'a [f32], usize);

    impl WithSimd for Search<'_> {
        type Output = Option<(f32, usize)>;

        fn with_simd<S: Simd>(self, simd: S) -> Option<(f32, usize)> {
            let (low, high) = extremes(simd, self.0);
            search(simd, self.0, self.1, low, high)
        }
    }

    /// Models produce equal keys, and a key that most queries prefer (a sink).
    #[test]
    fn equal_and_outstanding_scores_need_no_copy_of_the_row() {
        let smooth = |i: usize| ((i * 7919 % 1009) as f32 - 500.0) / 97.0;
        let rows: [&dyn Fn(usize) -> f32; 6] = [
            &|_| 1.5,
            &|i| (i % 2) as f32,
            &|i| smooth(i % 5),
            &|i| smooth(i % 64),
            &|i| if i == 70 { 1e4 } else { smooth(i) },
            &|i| if i == 70 { -1e30 } else { smooth(i % 30) },
        ];
        for (number, value) in rows.iter().enumerate() {
            for n in [16, 197, 1000] {
                let row: Vec<f32> = (0..n).map(value).collect();
                for k in 1..n {
                    let found = Arch::new().dispatch(Search(&row, k));
                    let Some((threshold, bound)) = found else {
                        panic!("row {number}, {k} of {n}: not found");
                    };
                    let keeps =
                        |&i: &usize| row[i] > threshold || (row[i] == threshold && i < bound);
                    let kept: Vec<usize> = (0..n).filter(keeps).collect();
                    assert_eq!(kept, best(&row, k), "row {number}, {k} of {n}");
                }
            }
        }
    }
}
