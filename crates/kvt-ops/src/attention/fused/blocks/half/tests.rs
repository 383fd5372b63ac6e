#![expect(clippy::unwrap_used, reason = "tests")]

use kvt_testing::naive::{Inputs, NAMES, Sizes, worst};

use super::*;
use crate::attention::AttentionSettings;
use crate::attention::fused::blocks::{HeadLayout, Heads};
use crate::cpu::bf16::testing::kernels;

fn halves(values: &[f32]) -> Vec<bf16> {
    values.iter().map(|x| bf16::from_f32(*x)).collect()
}

/// `[images, heads, tokens, dim]`
fn heads(data: &[bf16], heads: usize, tokens: usize, dim: usize) -> Heads<'_, bf16> {
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
fn heads_first(values: &[bf16], (image, first): (usize, usize), shape: [usize; 3]) -> Vec<f32> {
    let [heads, tokens, dim] = shape;
    let images = values.chunks(image);
    let of_image = |values: &[bf16]| -> Vec<f32> {
        let at = |i: usize| {
            let (head, token) = (i / (tokens * dim), i / dim % tokens);
            values[first + (token * heads + head) * dim + i % dim].to_f32()
        };
        (0..heads * tokens * dim).map(at).collect()
    };
    images.flat_map(of_image).collect()
}

/// Output and gradients of the problem with these instructions.
fn solve(kernel: Kernel, inputs: &Inputs, kept: usize) -> [Vec<f32>; 4] {
    let Sizes {
        images,
        heads: count,
        queries,
        keys,
        dim,
        value_dim,
    } = inputs.sizes;
    let [q, k, v, probe] = [&inputs.q, &inputs.k, &inputs.v, &inputs.probe].map(|x| halves(x));
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
    let problem = Problem::new(kernel, tensors, [images, count, queries, keys], settings);
    assert_eq!(problem.block() % kernel.height(), 0, "rows that cost time");
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

/// Sizes that fill tiles and pairs, and others; images that threads share, of one and of several blocks, and images that are divided among them.
#[test]
fn outputs_and_gradients_agree_with_sorting() {
    for (images, queries, keys, dim, value_dim) in [
        (1, 33, 40, 16, 16),
        (1, 90, 65, 17, 32),
        (2, 131, 197, 64, 16),
        (9, 13, 17, 32, 21),
        (9, 70, 17, 16, 16),
    ] {
        let sizes = Sizes {
            images,
            heads: 2,
            queries,
            keys,
            dim,
            value_dim,
        };
        let mut inputs = Inputs::new(sizes, 3);
        for x in [&mut inputs.v, &mut inputs.probe] {
            *x = halves(x).into_iter().map(bf16::to_f32).collect();
        }
        for kept in [1, keys / 2, keys] {
            let expected = inputs.solve(0.25, kept);
            for kernel in kernels().into_iter().flatten() {
                let actual = solve(kernel, &inputs, kept);
                for ((actual, expected), name) in actual.iter().zip(&expected).zip(NAMES) {
                    let worst = worst(actual, expected);
                    assert!(
                        worst < 1e-2,
                        "{kernel:?}, {kept} of {sizes:?}: {name} is off by {worst}"
                    );
                }
            }
        }
    }
}

/// Three images, each in parts: a single thread computes two of them with the same memory.
#[test]
fn results_are_the_same_with_any_number_of_threads() {
    let sizes = Sizes {
        images: 3,
        heads: 2,
        queries: 150,
        keys: 23,
        dim: 16,
        value_dim: 16,
    };
    let inputs = Inputs::new(sizes, 7);
    for kernel in kernels().into_iter().flatten() {
        let [one, five] = [1, 5].map(|threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
            pool.build().unwrap().install(|| solve(kernel, &inputs, 10))
        });
        assert_eq!(one, five, "{kernel:?}");
    }
}

/// A query with a NaN makes its own row NaN, and the gradients of all keys and values of its head.
#[test]
fn an_undefined_row_affects_no_other_query() {
    let sizes = Sizes {
        images: 1,
        heads: 2,
        queries: 30,
        keys: 21,
        dim: 16,
        value_dim: 16,
    };
    let inputs = Inputs::new(sizes, 5);
    let mut odd = inputs.clone();
    odd.q[16 * 31] = f32::NAN;
    for kernel in kernels().into_iter().flatten() {
        let [expected, actual] = [&inputs, &odd].map(|inputs| solve(kernel, inputs, 10));
        for (part, (actual, expected)) in actual.iter().zip(&expected).enumerate() {
            for (i, (a, e)) in actual.iter().zip(expected).enumerate() {
                let undefined = match part {
                    0 | 1 => i / 16 == 31,
                    _ => i / 16 >= 21,
                };
                assert_eq!(a.is_nan(), undefined, "{kernel:?}: {} {i}", NAMES[part]);
                assert!(undefined || a == e, "{kernel:?}: {} {i}", NAMES[part]);
            }
        }
    }
}

#[test]
fn few_keys_channels_and_kept_keys_are_left_to_f32() {
    let suited = |kept, keys, dim, value_dim| {
        let tensors = [dim, dim, value_dim].map(|dim| heads(&[], 1, keys, dim));
        let settings = AttentionSettings {
            scale: 1.0,
            kept,
            flash: false,
        };
        let kernel = Kernel::scalar();
        Problem::new(kernel, tensors, [1, 1, keys, keys], settings).is_suited()
    };
    assert!(suited(2, 16, 16, 16));
    assert!(suited(20, 199, 16, 16));
    for (kept, keys, dim, value_dim) in [
        (2, 15, 16, 16),
        (2, 16, 15, 16),
        (2, 16, 16, 15),
        (20, 200, 16, 16),
    ] {
        assert!(
            !suited(kept, keys, dim, value_dim),
            "{kept} {keys} {dim} {value_dim}"
        );
    }
}
