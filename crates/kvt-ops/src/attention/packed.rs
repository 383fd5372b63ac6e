//! The packed projection of self-attention: `[batch, tokens, 3 * dim]` in the order `(3, heads, head_dim)`.

use burn::backend::{Backend, TensorMetadata, tensor::FloatTensor};
use burn::tensor::{Shape, Slice};

/// Queries, keys and values, each `[batch, heads, tokens, head_dim]`.
pub(super) fn split<B: Backend>(qkv: &FloatTensor<B>, heads: usize) -> [FloatTensor<B>; 3] {
    let [batch, tokens, width] = qkv.shape().dims();
    let dim = width / 3;
    [0, 1, 2].map(|part| {
        let all = |size: usize| Slice::from(0..size);
        let channels = Slice::from(part * dim..(part + 1) * dim);
        let part = B::float_slice(qkv.clone(), &[all(batch), all(tokens), channels]);
        split_heads::<B>(part, heads)
    })
}

/// The inverse of [`split`], for the gradients.
pub(super) fn join<B: Backend>(parts: [FloatTensor<B>; 3]) -> FloatTensor<B> {
    B::float_cat(parts.map(merge_heads::<B>).into(), 2)
}

/// `[batch, tokens, heads * head_dim]` to `[batch, heads, tokens, head_dim]`.
pub(super) fn split_heads<B: Backend>(x: FloatTensor<B>, heads: usize) -> FloatTensor<B> {
    let [batch, tokens, dim] = x.shape().dims();
    let x = B::float_reshape(x, Shape::new([batch, tokens, heads, dim / heads]));
    B::float_swap_dims(x, 1, 2)
}

/// The inverse of [`split_heads`].
pub(super) fn merge_heads<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    let [batch, heads, tokens, dim] = x.shape().dims();
    let x = B::float_swap_dims(x, 1, 2);
    B::float_reshape(x, Shape::new([batch, tokens, heads * dim]))
}
