//! How far patches attend: the nonlocality of [ConViT](https://arxiv.org/abs/2103.10697), equation 9.

use burn::tensor::{Device, Tensor, TensorData};

/// The Euclidean distances between the patches of a map with so many rows and columns, in units of patches, `[query, key]`, both row by
/// row.
pub fn distances([rows, columns]: [usize; 2], device: &Device) -> Tensor<2> {
    let patches = rows * columns;
    let place = |patch: usize| [patch / columns.max(1), patch % columns.max(1)].map(|x| x as f64);
    let mut all = Vec::with_capacity(patches * patches);
    for query in 0..patches {
        let [row, column] = place(query);
        all.extend((0..patches).map(|key| {
            let [other_row, other_column] = place(key);
            (row - other_row).hypot(column - other_column) as f32
        }));
    }
    Tensor::from_data(TensorData::new(all, [patches, patches]), device)
}

/// The weights between patches: without the first `prefix` queries and keys.
///
/// # Shapes
///
/// `[images, heads, tokens, tokens]` to `[images, heads, patches, patches]`
pub fn between_patches(weights: Tensor<4>, prefix: usize) -> Tensor<4> {
    let patches = weights.dims()[3].saturating_sub(prefix);
    weights
        .narrow(2, prefix, patches)
        .narrow(3, prefix, patches)
}

/// Weights normalised to sum 1 for each query; a query that attends to no patch keeps zeros.
///
/// # Shapes
///
/// `[images, heads, query, key]` to the same.
pub fn renormalized(weights: Tensor<4>) -> Tensor<4> {
    let sums = weights.clone().sum_dim(3).clamp_min(f32::MIN_POSITIVE);
    weights / sums
}

/// `1 / L sum_ij A_ij |d_ij|`, with L queries: the mean distance from a query to the keys it attends to, averaged over the queries,
/// for each head of each image.
///
/// # Shapes
///
/// `[images, heads, query, key]` and [`distances`] `[query, key]` to `[images, heads]`.
pub fn nonlocality(weights: Tensor<4>, distances: Tensor<2>) -> Tensor<2> {
    let [images, heads, _, _] = weights.dims();
    let distances = distances.unsqueeze::<4>();
    (weights * distances)
        .sum_dim(3)
        .mean_dim(2)
        .reshape([images, heads])
}
