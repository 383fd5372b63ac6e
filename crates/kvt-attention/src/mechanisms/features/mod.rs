//! Attention by features of queries and keys, at a cost that grows linearly with the tokens.

use burn::tensor::{DType, Tensor};

use super::weighing::Qkv;
use crate::{Cost, Place};

mod directions;

pub use directions::perpendicular;
pub(super) use directions::{Directions, gaussian};

/// `phi_q (phi_k^T v) / (phi_q sum phi_k + epsilon)`: attention whose weights are products of the features of a query
/// and of the keys, divided by their sum ([Katharopoulos et al., 2020](https://arxiv.org/abs/2006.16236), equation
/// 5). No weight is computed: `m` features and values of `d` channels cost `2 m d` operations per token.
///
/// # Shapes
/// - `phi_q`: `[batch, heads, query, feature]`
/// - `phi_k`: `[batch, heads, key, feature]`
/// - `v`: `[batch, heads, key, value_dim]`
/// - output: `[batch, heads, query, value_dim]`, in the type of `v`. All computations are in f32.
pub fn attend_features(
    phi_q: Tensor<4>,
    phi_k: Tensor<4>,
    v: Tensor<4>,
    epsilon: f64,
) -> Tensor<4> {
    attend_divided([phi_q, phi_k, v], |sum| sum + epsilon)
}

/// [`attend_features`] for features whose products, and thus their sums, may be negative: `2 epsilon` is added to
/// sums between `-epsilon` and `epsilon`, and nothing to others.
pub(super) fn attend_signed_features(features: Qkv, epsilon: f64) -> Tensor<4> {
    attend_divided(features, |sum| {
        let small = sum.clone().abs().lower_equal_elem(epsilon);
        let added = sum.zeros_like().mask_fill(small, 2.0 * epsilon);
        sum + added
    })
}

/// The weighted sum of the values, divided by `divisor` of the sum of the weights.
fn attend_divided(features: Qkv, divisor: impl FnOnce(Tensor<4>) -> Tensor<4>) -> Tensor<4> {
    let dtype = features[2].dtype();
    let [phi_q, phi_k, v] = features.map(|x| x.cast(DType::F32));
    let phi_k = phi_k.swap_dims(2, 3);
    let sum = phi_q.clone().matmul(phi_k.clone().sum_dim(3));
    (phi_q.matmul(phi_k.matmul(v)) / divisor(sum)).cast(dtype)
}

/// `[sin(omega x), cos(omega x)] / sqrt(m)` for `m` directions: products of these features estimate
/// `exp(-|q - k|^2 / 2)` (Rahimi and Recht, *Random Features for Large-Scale Kernel Machines*, 2007).
///
/// # Shapes
/// - `x`: `[batch, heads, token, head_dim]`
/// - `omega`: `[1, heads or 1, m, head_dim]`
/// - output: `[batch, heads, token, 2 m]`
pub(super) fn waves(x: Tensor<4>, omega: Tensor<4>) -> Tensor<4> {
    let [_, _, features, _] = omega.dims();
    let angles = x.matmul(omega.swap_dims(2, 3));
    Tensor::cat(vec![angles.clone().sin(), angles.cos()], 3) / (features as f64).sqrt()
}

/// Half the squared length of every token, `[batch, heads, token, 1]`.
pub fn half_square(x: Tensor<4>) -> Tensor<4> {
    x.powi_scalar(2).sum_dim(3) * 0.5
}

/// The cost of attention by features if every channel of a query or a key takes part in `products` products: one per
/// feature, and one more per random direction.
pub(super) fn cost(place: &Place, products: usize) -> Cost {
    let tokens = place.queries + place.keys;
    Cost::of_products(tokens * place.dim() * products, place.keys)
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(super) mod unbiased;
