//! The packed projection of self-attention: `[batch * windows, tokens, 3 * dim]` in the order `(3, heads, head_dim)`.

use burn::backend::{Backend, TensorMetadata, tensor::FloatTensor};
use burn::tensor::{Shape, Slice};

use super::Packing;

/// Queries, keys and values, each `[batch, windows * heads, tokens, head_dim]`.
pub(super) fn split<B: Backend>(qkv: &FloatTensor<B>, packing: Packing) -> [FloatTensor<B>; 3] {
    let [images, tokens, width] = qkv.shape().dims();
    let dim = width / 3;
    [0, 1, 2].map(|part| {
        let all = |size: usize| Slice::from(0..size);
        let channels = Slice::from(part * dim..(part + 1) * dim);
        let part = B::float_slice(qkv.clone(), &[all(images), all(tokens), channels]);
        split_heads::<B>(part, packing)
    })
}

/// The inverse of [`split`], for the gradients.
pub(super) fn join<B: Backend>(parts: [FloatTensor<B>; 3], packing: Packing) -> FloatTensor<B> {
    let parts = parts.map(|part| merge_heads::<B>(part, packing));
    B::float_cat(parts.into(), 2)
}

/// `[batch * windows, tokens, heads * head_dim]` to `[batch, windows * heads, tokens, head_dim]`.
pub(super) fn split_heads<B: Backend>(x: FloatTensor<B>, packing: Packing) -> FloatTensor<B> {
    let Packing { heads, windows } = packing;
    let [images, tokens, dim] = x.shape().dims();
    let x = B::float_reshape(x, Shape::new([images, tokens, heads, dim / heads]));
    let x = B::float_swap_dims(x, 1, 2);
    if windows == 1 {
        return x;
    }
    let folded = [images / windows, windows * heads, tokens, dim / heads];
    B::float_reshape(x, Shape::new(folded))
}

/// The inverse of [`split_heads`].
pub(super) fn merge_heads<B: Backend>(x: FloatTensor<B>, packing: Packing) -> FloatTensor<B> {
    let Packing { heads, windows } = packing;
    let [batch, _, tokens, dim] = x.shape().dims();
    let images = batch * windows;
    let x = if windows == 1 {
        x
    } else {
        B::float_reshape(x, Shape::new([images, heads, tokens, dim]))
    };
    let x = B::float_swap_dims(x, 1, 2);
    B::float_reshape(x, Shape::new([images, tokens, heads * dim]))
}
