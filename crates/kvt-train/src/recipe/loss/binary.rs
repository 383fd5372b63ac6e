//! Binary cross-entropy, as timm's `BinaryCrossEntropy`.

use burn::tensor::Tensor;
use burn::tensor::activation::log_sigmoid;

/// `-(t log sigmoid(x) + (1 - t) log(1 - sigmoid(x)))` for logits x and targets t: the mean over batch and classes, or
/// with `sum_classes` the sum over the classes and the mean over the batch.
///
/// # Shapes
/// `logits` and `targets`: `[batch, classes]`; the result is `[1]`.
pub fn binary_cross_entropy(logits: Tensor<2>, targets: Tensor<2>, sum_classes: bool) -> Tensor<1> {
    let [batch, classes] = logits.dims();
    let count = if sum_classes { batch } else { batch * classes };
    // log(1 - sigmoid(x)) = log sigmoid(x) - x
    let rest = targets.neg() + 1.0;
    (rest * logits.clone() - log_sigmoid(logits)).sum() * (1.0 / count as f64)
}
