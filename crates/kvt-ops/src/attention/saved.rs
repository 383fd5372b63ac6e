//! What the flash kernels save of a row for its gradient.

use burn::backend::fusion::custom::TensorSpec;
use burn::tensor::{DType, Shape};

use super::AttentionSettings;

/// Words that are saved of a row: its largest score, the sum of the exponentials below that, and,
/// where not all keys are kept, a bit for every key. The bits, since a score that is computed again in
/// another kernel need not be the same to the last bit, and keys may tie.
pub(super) fn words(keys: usize, kept: usize) -> usize {
    2 + if kept < keys { keys.div_ceil(32) } else { 0 }
}

/// Output and what is saved, `[batch, heads, query, words]`.
pub(super) fn specs(
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
