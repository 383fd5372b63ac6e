//! Standard deviation of attention weights.

use burn::tensor::Tensor;

use super::Measure;

/// The standard deviation of each query's weights in all conventions, and the number of keys with a weight above 0, averaged over
/// queries, heads and windows, for each image `[images]`. With k-NN attention these keys are the k kept ones, or fewer if a weight rounds
/// to 0; the deviation over a single one is 0.
///
/// The paper states neither the set of keys nor the divisor. Uniform weights on k of n keys have the population standard deviation
/// `sqrt(n / k - 1) / n` over all keys, and 0 over the kept ones.
///
/// # Shapes
///
/// `[images, heads, query, key]`
pub fn deviations(weights: Tensor<4>) -> [(Measure, Tensor<1>); 5] {
    let [images, _, _, keys] = weights.dims();
    let centred = weights.clone() - weights.clone().mean_dim(3);
    let squares = centred.square().sum_dim(3);
    let is_kept = weights.clone().greater_elem(0.0).float();
    let kept = is_kept.clone().sum_dim(3);
    let mean = weights.clone().sum_dim(3) / kept.clone().clamp_min(1.0);
    let of_kept = ((weights - mean) * is_kept).square().sum_dim(3);
    let [others, all] = [keys.saturating_sub(1), keys].map(|keys| keys.max(1) as f64);
    let [kept_others, all_kept] =
        [kept.clone() - 1.0, kept.clone()].map(|kept| kept.clamp_min(1.0));
    let rows = [
        (Measure::Std, (squares.clone() / others).sqrt()),
        (Measure::StdPopulation, (squares / all).sqrt()),
        (Measure::StdKept, (of_kept.clone() / kept_others).sqrt()),
        (Measure::StdKeptPopulation, (of_kept / all_kept).sqrt()),
        (Measure::Kept, kept),
    ];
    let mean = |rows: Tensor<4>| rows.mean_dim(1).mean_dim(2).reshape([images]);
    rows.map(|(measure, rows)| (measure, mean(rows)))
}
