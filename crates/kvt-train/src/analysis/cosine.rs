//! Cosine similarity between tokens.

use burn::tensor::Tensor;

/// The mean cosine of the angle between two different tokens, for each image:
///
/// ```text
/// 1 / (n (n - 1)) sum_{i != j} t_i . t_j / (|t_i| |t_j|) = (|sum_i u_i|^2 - sum_i |u_i|^2) / (n (n - 1)),  u_i = t_i / |t_i|
/// ```
///
/// The right side needs n products of d numbers instead of n^2. A zero token has cosine 0 with all others.
///
/// # Shapes
///
/// `[images, tokens, dim]` to `[images]`; `None` for fewer than two tokens.
pub fn cosine_similarity(tokens: Tensor<3>) -> Option<Tensor<1>> {
    let count = tokens.dims()[1];
    if count < 2 {
        return None;
    }
    let norms = tokens.clone().square().sum_dim(2).sqrt();
    let units = tokens / norms.clamp_min(f32::MIN_POSITIVE);
    let own = units.clone().square().sum_dim(2).sum_dim(1);
    let all = units.sum_dim(1).square().sum_dim(2);
    let pairs = count as f64 * (count - 1) as f64;
    let images = own.dims()[0];
    Some(((all - own) / pairs).reshape([images]))
}
