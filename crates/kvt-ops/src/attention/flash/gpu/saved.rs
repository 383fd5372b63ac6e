//! The row statistics that the forward kernel saves for the gradient.

use burn::backend::fusion::custom::TensorSpec;
use burn::tensor::{DType, Shape};

use crate::attention::AttentionSettings;

/// Saved words per row: the maximum, the sum of `exp(score - maximum)`, and, if keys are dropped, one bit per key. The
/// bits are needed because keys can tie, and because another kernel can round a score differently.
pub(super) fn words(keys: usize, kept: usize) -> usize {
    2 + if kept < keys { keys.div_ceil(32) } else { 0 }
}

/// The output, and the row statistics `[batch, heads, query, words]`.
pub(in crate::attention) fn specs(
    q: &TensorSpec,
    k: &TensorSpec,
    v: &TensorSpec,
    settings: &AttentionSettings,
) -> (TensorSpec, TensorSpec) {
    let [batch, heads, queries, _] = q.shape.dims();
    let [keys, value_dim] = [k.shape[2], v.shape[3]];
    let shape = |last| Shape::new([batch, heads, queries, last]);
    (
        TensorSpec::new(shape(value_dim), q.dtype),
        TensorSpec::new(shape(words(keys, settings.kept)), DType::F32),
    )
}
