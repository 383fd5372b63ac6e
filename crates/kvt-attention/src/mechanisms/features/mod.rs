//! Attention by features of queries and keys, at a cost that grows linearly with the tokens; random directions.

use burn::tensor::{DType, Tensor};

/// `phi_q (phi_k^T v) / (phi_q sum phi_k + epsilon)`: attention whose weights are products of the features of a query and
/// of the keys, divided by their sum ([Katharopoulos et al., 2020](https://arxiv.org/abs/2006.16236), equation 5). No
/// weight is computed: `m` features and values of `d` channels cost `2 m d` operations per token.
///
/// # Shapes
/// - `phi_q`: `[batch, heads, query, feature]`
/// - `phi_k`: `[batch, heads, key, feature]`
/// - `v`: `[batch, heads, key, value_dim]`
/// - output: `[batch, heads, query, value_dim]`, in the type of `v`. Everything before it is f32.
pub(super) fn attend_features(
    phi_q: Tensor<4>,
    phi_k: Tensor<4>,
    v: Tensor<4>,
    epsilon: f64,
) -> Tensor<4> {
    attend_divided(phi_q, phi_k, v, |sum| sum + epsilon)
}

/// [`attend_features`] for features whose products may be negative, and so their sum: `2 epsilon` are added to sums
/// between `-epsilon` and `epsilon`.
pub(super) fn attend_signed_features(
    phi_q: Tensor<4>,
    phi_k: Tensor<4>,
    v: Tensor<4>,
    epsilon: f64,
) -> Tensor<4> {
    attend_divided(phi_q, phi_k, v, |sum| {
        let small = sum.clone().abs().lower_equal_elem(epsilon);
        sum + small.float() * (2.0 * epsilon)
    })
}

/// The weighted sum of the values, over what `divisor` makes of the sum of the weights.
fn attend_divided(
    phi_q: Tensor<4>,
    phi_k: Tensor<4>,
    v: Tensor<4>,
    divisor: impl FnOnce(Tensor<4>) -> Tensor<4>,
) -> Tensor<4> {
    let dtype = v.dtype();
    let [phi_q, phi_k, v] = [phi_q, phi_k, v].map(|x| x.cast(DType::F32));
    let phi_k = phi_k.swap_dims(2, 3);
    let sum = phi_q.clone().matmul(phi_k.clone().sum_dim(3));
    (phi_q.matmul(phi_k.matmul(v)) / divisor(sum)).cast(dtype)
}
