//! Conversions between sequences and maps of tokens.

use burn::tensor::Tensor;

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
    patches.swap_dims(1, 2).reshape([batch, dim, rows, columns])
}

/// # Shapes
///
/// `[batch, dim, rows, columns]` to `[batch, rows * columns, dim]`, row by row.
pub(crate) fn to_tokens(map: Tensor<4>) -> Tensor<3> {
    let [batch, dim, rows, columns] = map.dims();
    map.reshape([batch, dim, rows * columns]).swap_dims(1, 2)
}
