//! Which scores of a row are its best k, and which of equal ones: the rule, and the reference that follows it.
//!
//! # The rule
//! Exactly `min(k, n)` of the `n` scores of a row survive; of equal scores, those at lower indices survive first, and
//! -0 equals +0. Half types are selected as f32. `k >= n` keeps all.
//!
//! Every operation that selects follows it: on the CPU `cpu/softmax_row/select.rs`, on GPUs `gpu/select.rs`.
//!
//! # The reference
//! The selection composed of Burn's operations: the paper's Algorithm 1 step by step, on every backend. Tests compare
//! the fused operation with it. All operations stay on the device (Burn sorts on the host), and none orders ties differently
//! on some backend.

use burn::tensor::{Bool, Int, Tensor};

/// Marks the keys of each row of `ranking` (last dimension) that survive by [the rule](crate::top_k#the-rule). A NaN survives
/// too, so that it is not dropped silently. `k` is at least 1.
pub fn select<const D: usize>(ranking: Tensor<D>, k: usize) -> Tensor<D, Bool> {
    let last = D - 1;
    let keys = ranking.dims()[last];
    // The gradient of a selection is zero almost everywhere.
    let ranking = ranking.detach();
    let k = k.min(keys);
    let threshold = ranking.clone().topk(k, last).narrow(last, k - 1, 1);
    let above = ranking.clone().greater(threshold.clone());
    let ties = ranking.clone().equal(threshold);
    // Places left for ties; the n-th tie of a row is kept if n <= places.
    let places = above
        .clone()
        .int()
        .sum_dim(last)
        .mul_scalar(-1)
        .add_scalar(k as i64);
    let rank = ties.clone().int().cumsum(last);
    let kept = above.bool_or(ties.bool_and(rank.lower_equal(places)));
    kept.bool_or(ranking.is_nan())
}

/// The indices of the `k` kept keys per row in ascending order, `[.., k]`.
pub fn indices<const D: usize>(kept: Tensor<D, Bool>, k: usize) -> Tensor<D, Int> {
    let last = D - 1;
    let keys = kept.dims()[last];
    let mut shape = [1; D];
    shape[last] = keys;
    // Burn's top-k requires a k below the number of keys.
    if k >= keys {
        let all = Tensor::<1, Int>::arange(0..keys as i64, &kept.device());
        return all.reshape(shape).expand(kept.dims());
    }
    // Distinct numbers, larger for lower indices: top-k returns the indices in order, without ties.
    let order = Tensor::<1, Int>::arange(-(keys as i64)..0, &kept.device())
        .mul_scalar(-1)
        .float()
        .reshape(shape);
    (kept.float() * order).argtopk(k, last)
}
