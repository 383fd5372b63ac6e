//! Conversions between sequences and maps of tokens.

use burn::tensor::Tensor;
use kvt_ops::{permute, permute_reshape};

/// The map without the prefix tokens before it.
///
/// # Shapes
///
/// `[batch, prefix + rows * columns, dim]`, row by row, to `[batch, dim, rows, columns]`.
pub(crate) fn to_map(tokens: Tensor<3>, prefix: usize, [rows, columns]: [usize; 2]) -> Tensor<4> {
    let [batch, _, dim] = tokens.dims();
    let patches = match prefix {
        0 => tokens,
        _ => tokens.narrow(1, prefix, rows * columns),
    };
    permute_reshape(patches, [0, 2, 1], [batch, dim, rows, columns])
}

/// # Shapes
///
/// `[batch, dim, rows, columns]` to `[batch, rows * columns, dim]`, row by row.
pub(crate) fn to_tokens(map: Tensor<4>) -> Tensor<3> {
    let [batch, dim, rows, columns] = map.dims();
    permute(map.reshape([batch, dim, rows * columns]), [0, 2, 1])
}
