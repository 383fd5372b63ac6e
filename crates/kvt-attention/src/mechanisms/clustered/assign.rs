//! The clusters of the queries: k-means on hashes by Hamming distance, without gradients.

use burn::tensor::{Bool, DType, Device, Int, Tensor, TensorData};
use kvt_ops::Key;
use rand::seq::index;

use super::super::features::gaussian;

/// Planes that divide the space of the queries, `[bits, head_dim + 1]`: normals, and offsets in the last column.
pub(super) fn draw_planes(key: Key, bits: usize, head_dim: usize, device: &Device) -> Tensor<2> {
    let numbers = gaussian(key, bits, head_dim + 1, false);
    Tensor::from_data(TensorData::new(numbers, [bits, head_dim + 1]), device)
}

/// The queries that are the initial centroids, `[clusters]`, all different.
pub(super) fn draw_start(
    key: Key,
    clusters: usize,
    queries: usize,
    device: &Device,
) -> Tensor<1, Int> {
    let chosen = index::sample(&mut key.rng(), queries, clusters.min(queries));
    let chosen: Vec<i64> = chosen.iter().map(|query| query as i64).collect();
    let shape = [chosen.len()];
    Tensor::from_data(TensorData::new(chosen, shape), device)
}

/// Lloyd's algorithm on the hashes of the queries, starting from those at `start`: marks the cluster of each query.
///
/// A cluster that loses its members keeps its centroid. Of equally near centroids the first is taken.
///
/// # Shapes
/// - `q`: `[batch, heads, query, head_dim]`
/// - `planes`: `[bits, head_dim + 1]`
/// - `start`: `[clusters]`
/// - output: `[batch, heads, query, cluster]`
pub(super) fn assign(
    q: Tensor<4>,
    planes: Tensor<2>,
    start: Tensor<1, Int>,
    iterations: usize,
) -> Tensor<4, Bool> {
    let hashes = hash(q.detach().cast(DType::F32), planes);
    let mut centroids = hashes.clone().select(2, start);
    for _ in 0..iterations {
        // `[batch, heads, cluster, query]`
        let members = nearest(hashes.clone(), centroids.clone())
            .float()
            .swap_dims(2, 3);
        let empty = members.clone().sum_dim(3).equal_elem(0.0);
        let majority = signs(members.matmul(hashes.clone()).greater_elem(0.0));
        centroids = majority.mask_where(empty.expand(centroids.dims()), centroids);
    }
    nearest(hashes, centroids)
}

/// 1 or -1 for the side of each plane on which a query lies, `[batch, heads, query, bits]`.
fn hash(q: Tensor<4>, planes: Tensor<2>) -> Tensor<4> {
    let ([batch, heads, queries, dim], [bits, _]) = (q.dims(), planes.dims());
    let rows = batch * heads * queries;
    let normals = planes.clone().narrow(1, 0, dim).swap_dims(0, 1);
    let offsets = planes.narrow(1, dim, 1).swap_dims(0, 1);
    let products = q.reshape([rows, dim]).matmul(normals);
    let above = products.greater(offsets.expand([rows, bits]));
    signs(above.reshape([batch, heads, queries, bits]))
}

fn signs(bits: Tensor<4, Bool>) -> Tensor<4> {
    bits.float() * 2.0 - 1.0
}

/// Marks the nearest of the centroids, `[batch, heads, query, cluster]`.
fn nearest(hashes: Tensor<4>, centroids: Tensor<4>) -> Tensor<4, Bool> {
    let clusters = centroids.dims()[2];
    // A product is the number of bits minus twice the distance, an integer. Multiplied by the number of clusters, it
    // leaves room to subtract the index of the centroid, so that the first of equally near centroids is the unique
    // best.
    let products = hashes.matmul(centroids.swap_dims(2, 3));
    let order = Tensor::<1, Int>::arange(0..clusters as i64, &products.device()).float();
    let ranking = products * clusters as f64 - order.reshape([1, 1, 1, clusters]);
    let best = ranking.clone().max_dim(3).expand(ranking.dims());
    ranking.equal(best)
}
