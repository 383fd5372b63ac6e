//! Standard deviation of attention weights.

use burn::tensor::Tensor;

/// The standard deviation of each query's weights, averaged over queries, heads and windows, for each image `[images]`. The paper
/// states neither the set of keys nor the divisor. Uniform weights on k of n keys have the population standard deviation
/// `sqrt(n / k - 1) / n` over all keys, and 0 over the kept ones.
#[derive(Clone, Debug)]
pub struct Deviations {
    /// Over all n keys, divided by `n - 1`: `torch.std` of the softmax output.
    pub all_sample: Tensor<1>,
    /// Over all n keys, divided by `n`.
    pub all_population: Tensor<1>,
    /// Over the k keys with a weight above 0, divided by `k - 1`; 0 if there is only one.
    pub kept_sample: Tensor<1>,
    /// Over the k keys with a weight above 0, divided by `k`.
    pub kept_population: Tensor<1>,
    /// The number of keys with a weight above 0: with k-NN attention the k kept ones, or fewer if a weight rounds to 0.
    pub kept: Tensor<1>,
}

/// The standard deviations of attention weights in all conventions.
///
/// # Shapes
///
/// `[images, heads, query, key]`
pub fn deviations(weights: Tensor<4>) -> Deviations {
    let keys = weights.dims()[3];
    let centred = weights.clone() - weights.clone().mean_dim(3);
    let squares = centred.square().sum_dim(3);
    let is_kept = weights.clone().greater_elem(0.0).float();
    let kept = is_kept.clone().sum_dim(3);
    let mean = weights.clone().sum_dim(3) / kept.clone().clamp_min(1.0);
    let of_kept = ((weights - mean) * is_kept).square().sum_dim(3);
    Deviations {
        all_sample: mean_of_rows((squares.clone() / keys.saturating_sub(1).max(1) as f64).sqrt()),
        all_population: mean_of_rows((squares / keys.max(1) as f64).sqrt()),
        kept_sample: mean_of_rows((of_kept.clone() / (kept.clone() - 1.0).clamp_min(1.0)).sqrt()),
        kept_population: mean_of_rows((of_kept / kept.clone().clamp_min(1.0)).sqrt()),
        kept: mean_of_rows(kept),
    }
}

/// `[images, heads, query, 1]` to `[images]`.
fn mean_of_rows(rows: Tensor<4>) -> Tensor<1> {
    let images = rows.dims()[0];
    rows.mean_dim(1).mean_dim(2).reshape([images])
}
