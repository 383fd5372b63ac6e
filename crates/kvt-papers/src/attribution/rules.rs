//! How relevance propagates back through each operation: layer-wise relevance propagation with `alpha = 1`, as the authors of
//! Transformer Attribution compute it (`modules/layers_ours.py` of their code). Softmax, norms and activations pass it on
//! unchanged.

use burn::tensor::Tensor;

/// Keeps a divisor away from 0.
const EPSILON: f32 = 1e-9;

/// `a / (b + 1e-9)`, and 0 where `b` is 0.
pub(super) fn divide<const D: usize>(a: Tensor<D>, b: Tensor<D>) -> Tensor<D> {
    let divisor = b.clone() + EPSILON;
    let vanishes = divisor.clone().equal_elem(0.0);
    let divisor = divisor.mask_fill(vanishes, EPSILON);
    (a / divisor).mask_fill(b.equal_elem(0.0), 0.0)
}

/// A linear layer: the relevance of each output is split among the inputs in proportion to their positive contributions, `x+ w+`
/// and `x- w-`. The bias receives none.
///
/// # Shapes
/// `x`: `[tokens, inputs]`, `weight`: `[outputs, inputs]`, `relevance`: `[tokens, outputs]`; the result is as `x`.
pub(super) fn linear(x: Tensor<2>, weight: Tensor<2>, relevance: Tensor<2>) -> Tensor<2> {
    let [x_plus, w_plus] = [x.clone(), weight.clone()].map(|part| part.clamp_min(0.0));
    let [x_minus, w_minus] = [x, weight].map(|part| part.clamp_max(0.0));
    let raised = x_plus.clone().matmul(w_plus.clone().transpose())
        + x_minus.clone().matmul(w_minus.clone().transpose());
    let shares = divide(relevance, raised);
    x_plus * shares.clone().matmul(w_plus) + x_minus * shares.matmul(w_minus)
}

/// A product of matrices: each operand receives half of the relevance, in proportion to the contributions of its elements.
///
/// # Shapes
/// `a`: `[heads, n, k]`, `b`: `[heads, k, m]`, `relevance`: `[heads, n, m]`; the results are as `a` and `b`.
pub(super) fn product(a: Tensor<3>, b: Tensor<3>, relevance: Tensor<3>) -> [Tensor<3>; 2] {
    let shares = divide(relevance, a.clone().matmul(b.clone()));
    let of_a = a.clone() * shares.clone().matmul(b.clone().swap_dims(1, 2));
    let of_b = b * a.swap_dims(1, 2).matmul(shares);
    [of_a / 2.0, of_b / 2.0]
}

/// A sum of two streams: relevance is split in each element in proportion to the summands. Both parts are then scaled so that their
/// totals add up to the whole relevance, in the ratio of their absolute values.
///
/// # Shapes
/// All `[tokens, dim]`.
pub(super) fn sum(a: Tensor<2>, b: Tensor<2>, relevance: Tensor<2>) -> [Tensor<2>; 2] {
    let shares = divide(relevance.clone(), a.clone() + b.clone());
    let parts = [a * shares.clone(), b * shares];
    let sums = parts.each_ref().map(|part| part.clone().sum());
    let [of_a, of_b] = sums.clone().map(Tensor::abs);
    let whole = of_a + of_b;
    let relevance = relevance.sum();
    let factor = |sum: Tensor<1>| {
        let deserved = divide(sum.clone().abs(), whole.clone()) * relevance.clone();
        divide(deserved, sum).unsqueeze::<2>()
    };
    let ([a, b], [of_a, of_b]) = (parts, sums);
    [a * factor(of_a), b * factor(of_b)]
}

/// A stream that feeds two branches: the sum of both relevances, which is lost where the stream is 0.
///
/// # Shapes
/// All `[tokens, dim]`.
pub(super) fn fork(x: Tensor<2>, first: Tensor<2>, second: Tensor<2>) -> Tensor<2> {
    x.clone() * (divide(first, x.clone()) + divide(second, x))
}

/// The selection of a token: relevance passes to it unchanged, but is lost where the token is 0.
///
/// # Shapes
/// All `[tokens, dim]`.
pub(super) fn choice(x: Tensor<2>, relevance: Tensor<2>) -> Tensor<2> {
    x.clone() * divide(relevance, x)
}
