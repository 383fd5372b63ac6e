//! What the flash kernels save of a row for its gradient.

use burn::backend::fusion::custom::TensorSpec;
use burn::tensor::{DType, Shape};

use super::AttentionSettings;

/// Numbers that are saved of a row: the logarithm of the sum of the exponentials and, where not all
/// keys are kept, a bit for every key. The bits, since a score that is computed again in another
/// kernel need not be the same to the last bit, and the threshold is one of them.
pub(super) fn words(keys: usize, kept: usize) -> usize {
    1 + if kept < keys { keys.div_ceil(32) } else { 0 }
}

/// Output and what is saved, `[batch, heads, query, words]`.
pub(super) fn specs(
    q: &TensorSpec,
    k: &TensorSpec,
    v: &TensorSpec,
    settings: &AttentionSettings,
) -> (TensorSpec, TensorSpec) {
    let [batch, heads, queries, _] = q.shape.dims();
    let [_, _, keys, value_dim] = v.shape.dims();
    debug_assert_eq!(k.shape.dims::<4>()[2], keys);
    let shape = |last| Shape::new([batch, heads, queries, last]);
    (
        TensorSpec::new(shape(value_dim), q.dtype),
        TensorSpec::new(shape(words(keys, settings.kept)), DType::F32),
    )
}
