//! Attention for given clusters.

use burn::tensor::{Bool, DType, Device, Int, Tensor};
use kvt_ops::{knn_softmax, top_k};

use super::super::weighing::{Qkv, Weighing};
use crate::Dropout;

/// Every query gets the attention of the mean of its cluster, `S softmax(scale mean(q) k^T) v`.
///
/// # Shapes
/// - `q`, `k`, `v` and output: as for [`attend_unchecked`](crate::attend_unchecked)
/// - `groups`: `[batch, heads, query, cluster]`, one mark for each query
pub(super) fn clustered([q, k, v]: Qkv, groups: Tensor<4, Bool>, weighing: &Weighing) -> Tensor<4> {
    let (dtype, members) = (q.dtype(), groups.float());
    let means = means(q, members.clone());
    let [k, v] = [k, v].map(|x| x.cast(DType::F32));
    members.matmul(weighing.attend(means, k, v)).cast(dtype)
}

/// As [`clustered`], but a query gives the `kept` best keys of its cluster exact weights, scaled to the sum of the
/// weights that the cluster gives them. `kept` is at most the number of keys.
pub(super) fn improved(
    [q, k, v]: Qkv,
    groups: Tensor<4, Bool>,
    kept: usize,
    weighing: &Weighing,
) -> Tensor<4> {
    let dtype = q.dtype();
    let [q, k, v] = [q, k, v].map(|x| x.cast(DType::F32));
    let keys = k.dims()[2];
    let members = groups.clone().float();
    let scores = means(q.clone(), members.clone())
        .mul_scalar(weighing.scale / weighing.temperature)
        .matmul(k.clone().swap_dims(2, 3));
    let selected = top_k::select(scores.clone(), kept);
    let best = top_k::indices(selected.clone(), kept);
    let weights = knn_softmax(scores, keys);
    // `[batch, heads, cluster, 1]`
    let mass = weights
        .clone()
        .mask_fill(selected.clone().bool_not(), 0.0)
        .sum_dim(3);
    let others = weights.mask_fill(selected, 0.0);
    let others = Dropout::apply_any(weighing.named("cluster").dropout, others);
    let exact = exact(q, &k, &v, &of_each_query(best, groups), weighing);
    let out = members.clone().matmul(mass) * exact + members.matmul(others.matmul(v));
    out.cast(dtype)
}

/// The mean query of each cluster, `[batch, heads, cluster, head_dim]`, in f32; zeros where it has no members.
fn means(q: Tensor<4>, members: Tensor<4>) -> Tensor<4> {
    let counts = members.clone().sum_dim(2).swap_dims(2, 3).clamp_min(1.0);
    members.swap_dims(2, 3).matmul(q.cast(DType::F32)) / counts
}

/// Expands per-cluster numbers, `[batch, heads, cluster, kept]`, to the members, `[batch, heads, query, kept]`.
fn of_each_query(of_clusters: Tensor<4, Int>, groups: Tensor<4, Bool>) -> Tensor<4, Int> {
    let ([.., kept], [batch, heads, queries, clusters]) = (of_clusters.dims(), groups.dims());
    let numbers = Tensor::<1, Int>::arange(0..clusters as i64, &groups.device());
    let number = (groups.int() * numbers.reshape([1, 1, 1, clusters])).sum_dim(3);
    of_clusters.gather(2, number.expand([batch, heads, queries, kept]))
}

/// Attention of each query to its own keys, `[batch, heads, query, kept]`.
fn exact(
    q: Tensor<4>,
    k: &Tensor<4>,
    v: &Tensor<4>,
    keys: &Tensor<4, Int>,
    weighing: &Weighing,
) -> Tensor<4> {
    let [batch, heads, queries, dim] = q.dims();
    let take = |x: &Tensor<4>| rows(x.clone(), keys.clone());
    // Every query becomes a head, since each has its own keys.
    let q = q.reshape([batch, heads * queries, 1, dim]);
    let out = weighing.attend(q, take(k), take(v));
    out.reshape([batch, heads, queries, v.dims()[3]])
}

/// The rows `keys`, `[batch, heads, query, kept]`, of `x`, `[batch, heads, key, width]`:
/// `[batch, heads * query, kept, width]`.
fn rows(x: Tensor<4>, keys: Tensor<4, Int>) -> Tensor<4> {
    let ([batch, heads, count, width], [.., queries, kept]) = (x.dims(), keys.dims());
    let (maps, taken) = (batch * heads, queries * kept);
    // `select` copies whole rows on a CPU, where `gather` computes the place of each number. On a GPU `width` threads
    // alone would add up the gradient of `select`.
    let rows = if x.device() == Device::flex() {
        let first = Tensor::arange(0..maps as i64, &x.device()).mul_scalar(count as i64);
        let rows = keys.reshape([maps, taken]) + first.reshape([maps, 1]);
        let x = x.reshape([maps * count, width]);
        x.select(0, rows.reshape([maps * taken]))
    } else {
        let rows = keys.reshape([batch, heads, taken, 1]);
        let x = x.gather(2, rows.expand([batch, heads, taken, width]));
        x.reshape([maps * taken, width])
    };
    rows.reshape([batch, heads * queries, kept, width])
}
