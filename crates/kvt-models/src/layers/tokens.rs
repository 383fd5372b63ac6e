//! Between tokens in a row and a map of them.

use burn::tensor::Tensor;

/// # Shapes
///
/// `[batch, rows * columns, dim]`, row by row, to `[batch, dim, rows, columns]`.
pub(crate) fn to_map(tokens: Tensor<3>, [rows, columns]: [usize; 2]) -> Tensor<4> {
    let [batch, _, dim] = tokens.dims();
    tokens.swap_dims(1, 2).reshape([batch, dim, rows, columns])
}

/// # Shapes
///
/// `[batch, dim, rows, columns]` to `[batch, rows * columns, dim]`, row by row.
pub(crate) fn to_tokens(map: Tensor<4>) -> Tensor<3> {
    let [batch, dim, rows, columns] = map.dims();
    map.reshape([batch, dim, rows * columns]).swap_dims(1, 2)
}
