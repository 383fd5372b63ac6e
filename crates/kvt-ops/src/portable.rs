//! The selection composed from Burn's own operations: the paper's Algorithm 1 step by step. It
//! runs on every backend, and it is what the fused operation is tested against.
//!
//! Only operations that stay on the device are used (Burn sorts on the host), and none whose order
//! of ties depends on the backend.

use burn::tensor::{Bool, Int, Tensor};

/// Which keys survive: exactly `min(k, n)` per row of `ranking` (last dimension), ties by lower
/// index. A NaN survives too, so that it is not dropped in silence. `k` is at least 1.
pub fn select<const D: usize>(ranking: Tensor<D>, k: usize) -> Tensor<D, Bool> {
    let last = D - 1;
    let keys = ranking.dims()[last];
    // Constants of the selection: its gradient is zero almost everywhere.
    let ranking = ranking.detach();
    let k = k.min(keys);
    let threshold = ranking.clone().topk(k, last).narrow(last, k - 1, 1);
    let above = ranking.clone().greater(threshold.clone());
    let ties = ranking.clone().equal(threshold);
    // Places left for ties; the n-th tie of a row gets one if n <= places.
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
    // Distinct numbers, larger for lower indices: top-k returns them in order, without ties.
    let mut shape = [1; D];
    shape[last] = keys;
    let order = Tensor::<1, Int>::arange(-(keys as i64)..0, &kept.device())
        .mul_scalar(-1)
        .float()
        .reshape(shape);
    (kept.float() * order).argtopk(k.min(keys), last)
}
