//! One row of scores on the CPU: the exact selection of its k largest, the softmax over them, and the gradient.
//!
//! In explicit SIMD for the CPU detected at run time: loops vectorised by the compiler take three times as long.

use pulp::Simd;

use super::simd::{SMALLEST_EXPONENT, dot, exp};

mod select;

use select::select;

/// The values needed to turn a row of scores into probabilities again. A score `x` at index `i` survives if
/// `x > threshold`, or if `x == threshold` and `i < bound`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
pub(crate) struct RowState {
    /// The largest score.
    pub(crate) max: f32,
    /// One over the sum of `exp(x - max)` over the survivors; NaN if the softmax is undefined.
    pub(crate) scale: f32,
    threshold: f32,
    /// An integer: rows are shorter than 2^24.
    bound: f32,
}

impl RowState {
    /// The state of a row whose softmax is undefined.
    pub(crate) fn undefined() -> Self {
        Self {
            scale: f32::NAN,
            ..Self::default()
        }
    }

    /// Sets the scores that tie with the last survivor and come after it to `-inf`. Returns the least score that survives:
    /// smaller ones are dropped, or their weight rounds to zero. The row's softmax is defined.
    #[inline(always)]
    pub(crate) fn drop_ties(&self, row: &mut [f32]) -> f32 {
        // There are rarely any.
        for x in row.iter_mut().skip(self.bound as usize) {
            if *x == self.threshold {
                *x = f32::NEG_INFINITY;
            }
        }
        // This also drops -inf if all keys are kept.
        self.threshold.max(self.max + SMALLEST_EXPONENT)
    }
}

/// Replaces scores by `exp(x - max)` of the survivors and 0 elsewhere, which become probabilities when multiplied by
/// the returned `scale`. `k` is at least 1; `k >= n` keeps all.
///
/// A row whose softmax is undefined (it contains NaN or +inf, or only -inf) becomes NaN.
#[inline(always)]
pub(crate) fn softmax_row<S: Simd>(
    simd: S,
    row: &mut [f32],
    k: usize,
    scratch: &mut Vec<f32>,
) -> RowState {
    let mut state = survivors(simd, row, k, scratch);
    if state.scale.is_nan() {
        row.fill(f32::NAN);
        return state;
    }
    state.scale = 1.0 / exp_survivors(simd, row, &state);
    state
}

/// The scores that [`softmax_row`] keeps, with a scale of 1; or the state of an undefined row.
#[inline(always)]
pub(crate) fn survivors<S: Simd>(
    simd: S,
    row: &[f32],
    k: usize,
    scratch: &mut Vec<f32>,
) -> RowState {
    let (low, max) = extremes(simd, row);
    if !max.is_finite() {
        return RowState::undefined();
    }
    let (threshold, bound) = if k < row.len() {
        select(simd, row, k, low, max, scratch)
    } else {
        (f32::NEG_INFINITY, row.len())
    };
    RowState {
        max,
        scale: 1.0,
        threshold,
        bound: bound as f32,
    }
}

/// Replaces scores by probabilities, with the state that [`softmax_row`] returned.
#[inline(always)]
pub(crate) fn softmax_row_again<S: Simd>(simd: S, row: &mut [f32], state: &RowState) {
    if state.scale.is_nan() {
        row.fill(f32::NAN);
        return;
    }
    exp_survivors(simd, row, state);
    scale(row, state.scale);
}

/// `row *= factor`.
#[inline(always)]
pub(crate) fn scale(row: &mut [f32], factor: f32) {
    for x in row {
        *x *= factor;
    }
}

/// Turns the gradient of the probabilities into the gradient of the scores: `grad <- p (grad - sum(p grad))`.
#[inline(always)]
pub(crate) fn softmax_gradient<S: Simd>(simd: S, grad: &mut [f32], probabilities: &[f32]) {
    let dot = dot(simd, grad, probabilities);
    for (g, p) in grad.iter_mut().zip(probabilities) {
        *g = p * (*g - dot);
    }
}

/// The smallest and the largest value; the largest is NaN if there is a NaN.
#[inline(always)]
pub(crate) fn extremes<S: Simd>(simd: S, row: &[f32]) -> (f32, f32) {
    let (main, rest) = S::as_simd_f32s(row);
    let Some(&first) = row.first() else {
        return (f32::INFINITY, f32::NEG_INFINITY);
    };
    let rest = load(simd, rest, first);
    let (mut low, mut high) = (rest, rest);
    // x - x is 0, or NaN for NaN and infinities: the sum shows whether there was one.
    let mut odd = simd.sub_f32s(rest, rest);
    for &x in main {
        low = simd.min_f32s(low, x);
        high = simd.max_f32s(high, x);
        odd = simd.add_f32s(odd, simd.sub_f32s(x, x));
    }
    let (low, high) = (simd.reduce_min_f32s(low), simd.reduce_max_f32s(high));
    // Rare: distinguishes infinities from NaNs.
    if simd.reduce_sum_f32s(odd).is_nan() {
        let ordinary = row.iter().filter(|x| !x.is_nan());
        if row.iter().any(|x| x.is_nan()) {
            return (low, f32::NAN);
        }
        return ordinary.fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), &x| {
            (low.min(x), high.max(x))
        });
    }
    (low, high)
}

/// Fewer values than a register holds, padded with `fill`.
#[inline(always)]
fn load<S: Simd>(simd: S, rest: &[f32], fill: f32) -> S::f32s {
    let mask = simd.mask_between_m32s(0, rest.len() as u32).mask();
    simd.select_f32s(mask, simd.partial_load_f32s(rest), simd.splat_f32s(fill))
}

/// Replaces scores by `exp(x - max)` of the survivors and 0 elsewhere, and returns the sum.
#[inline(always)]
fn exp_survivors<S: Simd>(simd: S, row: &mut [f32], state: &RowState) -> f32 {
    let least = simd.splat_f32s(state.drop_ties(row));
    let max = simd.splat_f32s(state.max);
    let (main, rest) = S::as_mut_simd_f32s(row);
    let mut sum = simd.splat_f32s(0.0);
    for x in main {
        *x = survivor_exp(simd, *x, max, least);
        sum = simd.add_f32s(sum, *x);
    }
    let last = survivor_exp(simd, load(simd, rest, f32::NEG_INFINITY), max, least);
    simd.partial_store_f32s(rest, last);
    simd.reduce_sum_f32s(simd.add_f32s(sum, last))
}

/// Replaces scores that all survive by `exp(x - max)`, and returns the sum.
#[inline(always)]
pub(crate) fn exp_all<S: Simd>(simd: S, scores: &mut [f32], max: f32) -> f32 {
    let max = simd.splat_f32s(max);
    let (main, rest) = S::as_mut_simd_f32s(scores);
    let mut sum = simd.splat_f32s(0.0);
    for x in main {
        *x = exp(simd, simd.sub_f32s(*x, max));
        sum = simd.add_f32s(sum, *x);
    }
    let last = load(simd, rest, f32::NEG_INFINITY);
    let last = survivor_exp(simd, last, max, simd.splat_f32s(f32::MIN));
    simd.partial_store_f32s(rest, last);
    simd.reduce_sum_f32s(simd.add_f32s(sum, last))
}

/// `exp(x - max)` where `x >= least`, else 0.
#[inline(always)]
fn survivor_exp<S: Simd>(simd: S, x: S::f32s, max: S::f32s, least: S::f32s) -> S::f32s {
    let exp = exp(simd, simd.sub_f32s(x, max));
    let kept = simd.greater_than_or_equal_f32s(x, least);
    simd.select_f32s(kept, exp, simd.splat_f32s(0.0))
}

#[cfg(test)]
mod tests {
    use pulp::{Arch, WithSimd};

    use super::select::testing::best;
    use super::*;

    /// Uses the widest registers of this CPU.
    struct Forward<'a>(&'a mut [f32], usize);

    impl WithSimd for Forward<'_> {
        type Output = RowState;

        fn with_simd<S: Simd>(self, simd: S) -> RowState {
            softmax_row(simd, self.0, self.1, &mut Vec::new())
        }
    }

    struct Again<'a>(&'a mut [f32], &'a RowState);

    impl WithSimd for Again<'_> {
        type Output = ();

        fn with_simd<S: Simd>(self, simd: S) {
            softmax_row_again(simd, self.0, self.1);
        }
    }

    /// The indices that a state keeps, according to its definition.
    fn survivors(row: &[f32], state: &RowState) -> Vec<usize> {
        let keeps = |&i: &usize| {
            let x = row[i];
            x > state.threshold || (x == state.threshold && (i as f32) < state.bound)
        };
        (0..row.len()).filter(keeps).collect()
    }

    #[test]
    fn exactly_the_k_best_of_any_row_survive() {
        let smooth = |i: usize| ((i * 7919 % 1009) as f32 - 500.0) / 97.0;
        let rows: [&dyn Fn(usize) -> f32; 7] = [
            &smooth,
            &|_| 1.5,
            &|i| (i % 2) as f32,
            &|i| if i % 3 == 0 { -0.0 } else { 0.0 },
            // Most of the value range is empty, which the search must detect.
            &|i| if i == 0 { 3e38 } else { smooth(i) * 1e-30 },
            &|i| {
                if i % 5 == 0 {
                    f32::NEG_INFINITY
                } else {
                    smooth(i)
                }
            },
            &|i| if i % 2 == 0 { f32::MAX } else { f32::MIN },
        ];
        for (number, value) in rows.iter().enumerate() {
            for n in [1, 2, 15, 16, 17, 197] {
                let row: Vec<f32> = (0..n).map(value).collect();
                if row.iter().all(|x| x.is_infinite()) {
                    continue;
                }
                for k in 1..=n {
                    let mut weights = row.clone();
                    let state = Arch::new().dispatch(Forward(&mut weights, k));
                    let expected = best(&row, k);
                    if k < n {
                        assert_eq!(
                            survivors(&row, &state),
                            expected,
                            "row {number}, {k} of {n}"
                        );
                    }
                    let mut again = row.clone();
                    Arch::new().dispatch(Again(&mut again, &state));
                    scale(&mut weights, state.scale);
                    assert_eq!(again, weights, "row {number}, {k} of {n}");
                    let max = row[best(&row, 1)[0]];
                    for (i, weight) in weights.iter().enumerate() {
                        // A dropped key has a weight of exactly zero.
                        let kept = expected.contains(&i) && row[i] >= max - 87.0;
                        assert_eq!(*weight > 0.0, kept, "row {number}, {k} of {n}, key {i}");
                    }
                }
            }
        }
    }
}
