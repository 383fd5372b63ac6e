//! Problems that are computed by blocks, for tests of their products.

use std::fmt::Debug;

use kvt_testing::naive::{Inputs, NAMES, Sizes, worst};

use super::{HeadLayout, Heads, Operand, Problem};
use crate::attention::AttentionSettings;

/// Numbers for images of two heads with so many queries, keys, and channels of a key and of a value.
pub(super) fn inputs([images, queries, keys, dim, value_dim]: [usize; 5], seed: u64) -> Inputs {
    let sizes = Sizes {
        images,
        heads: 2,
        queries,
        keys,
        dim,
        value_dim,
    };
    Inputs::new(sizes, seed)
}

/// `[images, heads, tokens, dim]`
pub(super) fn heads<T>(data: &[T], heads: usize, tokens: usize, dim: usize) -> Heads<'_, T> {
    Heads {
        data,
        layout: HeadLayout {
            offset: 0,
            image_stride: heads * tokens * dim,
            head_stride: tokens * dim,
            token_stride: dim,
            dim,
        },
    }
}

/// From `[images, tokens, heads, dim]` to `[images, heads, tokens, dim]`, of `image` numbers per image, the first of which has the number
/// `first`.
fn heads_first<T: Operand>(
    values: &[T],
    (image, first): (usize, usize),
    shape: [usize; 3],
) -> Vec<f32> {
    let [heads, tokens, dim] = shape;
    let images = values.chunks(image);
    let of_image = |values: &[T]| -> Vec<f32> {
        let at = |i: usize| {
            let (head, token) = (i / (tokens * dim), i / dim % tokens);
            values[first + (token * heads + head) * dim + i % dim].widened()
        };
        (0..heads * tokens * dim).map(at).collect()
    };
    images.flat_map(of_image).collect()
}

/// Output and gradients of a problem, in numbers of a type, with its instructions.
pub(super) fn solve<T: Operand>(means: T::Means, inputs: &Inputs, kept: usize) -> [Vec<f32>; 4] {
    let Sizes {
        images,
        heads: count,
        queries,
        keys,
        dim,
        value_dim,
    } = inputs.sizes;
    let [q, k, v, probe] = [&inputs.q, &inputs.k, &inputs.v, &inputs.probe].map(|x| {
        let numbers = x.iter().map(|x| T::rounded(*x));
        numbers.collect::<Vec<_>>()
    });
    let settings = AttentionSettings {
        scale: 0.25,
        kept,
        flash: false,
    };
    let tensors = [
        heads(&q, count, queries, dim),
        heads(&k, count, keys, dim),
        heads(&v, count, keys, value_dim),
    ];
    let problem = Problem::<T>::new(means, tensors, [images, count, queries, keys], settings);
    assert_eq!(problem.block() % T::height(means), 0, "rows that cost time");
    let mut saved = vec![0.0; images * queries * count * problem.record()];
    let out = problem.forward(&mut saved);
    let shapes = [(queries, dim), (keys, dim), (keys, value_dim)];
    let mut size = 0;
    let layouts = shapes.map(|(tokens, dim)| {
        let layout = HeadLayout {
            offset: size,
            image_stride: 0,
            head_stride: dim,
            token_stride: count * dim,
            dim,
        };
        size += tokens * count * dim;
        layout
    });
    let d_out = heads(&probe, count, queries, value_dim);
    let grads = problem.backward(d_out, &saved, size, layouts);
    let of_image = queries * count * value_dim;
    let out = heads_first(&out, (of_image, 0), [count, queries, value_dim]);
    let grad = |part: usize| {
        let (tokens, dim) = shapes[part];
        heads_first(&grads, (size, layouts[part].offset), [count, tokens, dim])
    };
    [out, grad(0), grad(1), grad(2)]
}

/// Asserts that output and gradients are those of sorting, up to an error.
pub(super) fn agree_with_sorting<T: Operand<Means: Debug>>(
    means: T::Means,
    inputs: &Inputs,
    kept: usize,
    error: f32,
) {
    let expected = inputs.solve(0.25, kept);
    let actual = solve::<T>(means, inputs, kept);
    for ((actual, expected), name) in actual.iter().zip(&expected).zip(NAMES) {
        let (worst, sizes) = (worst(actual, expected), inputs.sizes);
        assert!(
            worst < error,
            "{means:?}, {kept} of {sizes:?}: {name} is off by {worst}"
        );
    }
}
