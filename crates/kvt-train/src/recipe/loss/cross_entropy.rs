//! Cross-entropy with soft targets.

use burn::tensor::Tensor;
use burn::tensor::activation::log_softmax;

/// Mean over the batch of `-sum_c target_c log softmax(logits)_c`.
///
/// # Shapes
/// `logits` and `targets`: `[batch, classes]`; the result is `[1]`.
pub fn cross_entropy(logits: Tensor<2>, targets: Tensor<2>) -> Tensor<1> {
    let batch = logits.dims()[0] as f64;
    (log_softmax(logits, 1) * targets).sum() * (-1.0 / batch)
}
