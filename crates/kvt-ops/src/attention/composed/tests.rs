//! The composed attention, which GPUs run, tested on the CPU.

use burn::backend::Flex;
use burn::tensor::{DType, Shape};

use super::*;
use crate::attention::{Packing, packed};
use crate::cpu::buffer::{tensor, values_of};
use kvt_testing::naive::{Inputs, NAMES, Sizes, best, dot, draw, worst};

type Floats = FloatTensor<Flex>;

/// `[images, heads, tokens, dim]`
fn heads(values: &[f32], sizes: Sizes, tokens: usize) -> Floats {
    let Sizes { images, heads, .. } = sizes;
    let dim = values.len() / (images * heads * tokens);
    tensor(values.to_vec(), Shape::new([images, heads, tokens, dim]))
}

fn tensors(inputs: &Inputs) -> ([Floats; 3], Floats) {
    let Sizes { queries, keys, .. } = inputs.sizes;
    let [q, d_out] = [&inputs.q, &inputs.probe].map(|x| heads(x, inputs.sizes, queries));
    let [k, v] = [&inputs.k, &inputs.v].map(|x| heads(x, inputs.sizes, keys));
    ([q, k, v], d_out)
}

fn numbers(x: Floats) -> Vec<f32> {
    values_of(&to_f32::<Flex>(x).to_contiguous()).to_vec()
}

fn settings(scale: f64, kept: usize) -> AttentionSettings {
    AttentionSettings {
        scale,
        kept,
        flash: false,
    }
}

const SIZES: Sizes = Sizes {
    images: 2,
    heads: 3,
    queries: 23,
    keys: 17,
    dim: 8,
    value_dim: 5,
};

/// All queries at once, all but one, some, or one at a time; with and without saved probabilities.
#[test]
fn outputs_and_gradients_agree_with_sorting() {
    let nothing = Added::Nothing;
    let inputs = Inputs::new(SIZES, 3);
    let of_a_query = SIZES.images * SIZES.heads * SIZES.keys;
    let limits = [usize::MAX, of_a_query * 22, of_a_query * 4, 1];
    for scale in [0.25, 1.0] {
        for kept in [1, 5, 17] {
            let expected = inputs.solve(scale, kept);
            let settings = settings(scale, kept);
            let check = |what: &str, actual: Vec<Floats>, expected: &[Vec<f32>], names: &[&str]| {
                assert_eq!(actual.len(), names.len());
                for ((actual, expected), name) in actual.into_iter().zip(expected).zip(names) {
                    let worst = worst(&numbers(actual), expected);
                    assert!(
                        worst < 2e-5,
                        "{what}, {scale}, {kept}: {name} is off by {worst}"
                    );
                }
            };
            for limit in limits {
                let (inputs, d_out) = tensors(&inputs);
                let (out, saved) = forward::<Flex>(inputs.clone(), &nothing, settings, limit);
                let ([q, k, v], _) =
                    backward::<Flex>(inputs, &nothing, saved, d_out, settings, limit);
                let what = format!("limit {limit}");
                check(&what, vec![out, q, k, v], &expected[..4], &NAMES[..4]);
            }
            let (inputs, d_out) = tensors(&inputs);
            let [q, k, v] = backward_from_inputs::<Flex>(inputs, d_out, settings);
            check("from inputs", vec![q, k, v], &expected[1..4], &NAMES[1..4]);
        }
    }
}

/// Each token holds its query, key and value side by side. Windows are folded into the heads.
#[test]
fn packed_tokens_are_split_into_heads() {
    let (images, tokens, count, dim, windows) = (6, 5, 3, 4, 3);
    let shape = Shape::new([images, tokens, 3 * count * dim]);
    let values: Vec<f32> = (0..shape.num_elements()).map(|i| i as f32).collect();
    let packing = Packing {
        heads: count,
        windows,
    };
    let qkv = tensor(values.clone(), shape);
    let parts = packed::split::<Flex>(&qkv, packing);
    assert_eq!(
        numbers(packed::join::<Flex>(parts.clone(), packing)),
        values
    );
    for (part, x) in parts.into_iter().enumerate() {
        let folded = [images / windows, windows * count, tokens, dim];
        assert_eq!(x.shape(), Shape::new(folded));
        let mut expected = Vec::new();
        for image in 0..images {
            for head in 0..count {
                for token in 0..tokens {
                    let start = ((image * tokens + token) * 3 + part) * count + head;
                    expected.extend((0..dim).map(|c| (start * dim + c) as f32));
                }
            }
        }
        assert_eq!(numbers(x), expected);
    }
}

/// Products that f32 represents and half types round: the kept keys match the exact scores.
#[test]
fn half_types_keep_the_keys_of_exact_scores() {
    let (queries, keys, dim, kept) = (12, 60, 16, 20);
    let [q, k] = [(1, queries), (2, keys)].map(|(seed, n)| draw(seed, n * dim, 61, 1.0));
    let mut eye = vec![0.0; keys * keys];
    eye.iter_mut().step_by(keys + 1).for_each(|x| *x = 1.0);
    let nothing = Added::Nothing;
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        for limit in [usize::MAX, keys * 5] {
            let inputs = [(&q, queries, dim), (&k, keys, dim), (&eye, keys, keys)].map(
                |(x, tokens, dim)| {
                    let x = tensor(x.clone(), Shape::new([1, 1, tokens, dim]));
                    cast::<Flex>(x, dtype)
                },
            );
            let settings = settings(f64::from(2.0f32.powi(-12)), kept);
            let (out, saved) = forward::<Flex>(inputs.clone(), &nothing, settings, limit);
            assert_eq!(out.dtype(), dtype);
            // The gradients have the type of the inputs.
            let (grads, _) =
                backward::<Flex>(inputs, &nothing, saved, out.clone(), settings, limit);
            for x in grads {
                assert_eq!(x.dtype(), dtype);
            }
            let rows = numbers(out);
            for (query, row) in rows.chunks(keys).enumerate() {
                let q = &q[query * dim..][..dim];
                let scores: Vec<f64> = k.chunks(dim).map(|k| dot(q, k)).collect();
                let best = best(&scores, kept);
                for (key, weight) in row.iter().enumerate() {
                    let is_kept = best.contains(&key);
                    assert_eq!(*weight > 0.0, is_kept, "{dtype:?} {query} {key}");
                }
            }
        }
    }
}

#[test]
fn saved_memory_does_not_grow_with_the_scores() {
    let sizes = Sizes {
        queries: 64,
        keys: 64,
        ..SIZES
    };
    let saved = |limit| {
        let (inputs, _) = tensors(&Inputs::new(sizes, 1));
        let (_, saved) = forward::<Flex>(inputs, &Added::Nothing, settings(1.0, 9), limit);
        saved.shape().num_elements()
    };
    assert_eq!(saved(usize::MAX), 2 * 3 * 64 * 64);
    assert_eq!(saved(1000), 2 * 3 * 8);
}

/// Computed by hand: 128 MiB up to 32 GiB, 0.55 GB of the 141 GB of an H200, and the limit of one tensor.
#[test]
fn many_scores_are_more_on_larger_devices() {
    let gib = 1 << 30;
    assert_eq!(limit_of(Some(4 * gib), 2 * gib), 1 << 25);
    assert_eq!(limit_of(Some(32 * gib), 2 * gib), 1 << 25);
    assert_eq!(limit_of(Some(64 * gib), 2 * gib), 1 << 26);
    assert_eq!(limit_of(Some(141_000_000_000), 35_250_000_000), 137_695_312);
    assert_eq!(limit_of(Some(64 * gib), gib / 16), 1 << 24);
    assert_eq!(limit_of(None, gib), SCORES);
    assert_eq!(limit_of(None, gib / 16), 1 << 24);
}

/// With fusion, the device has the same type.
#[cfg(feature = "wgpu")]
#[test]
fn the_memory_of_a_gpu_is_asked_for() {
    let Some(device) = crate::gpu::testing::device() else {
        return;
    };
    let x = device.tensor(&[0.0], [1]);
    fn is_asked<B: Backend>(device: &B::Device) -> bool {
        memory(device).is_some()
    }
    assert!(is_asked::<burn_cubecl::CubeBackend>(&x.device));
    // The default methods run on this backend.
    assert!(is_asked::<burn::backend::Cube>(&x.device));
    let reported = x.client.properties().memory.clone();
    let expected = limit_of(reported.max_memory(), reported.max_page_size);
    assert_eq!(limit::<burn_cubecl::CubeBackend>(&x), expected);
}

#[test]
fn blocks_are_tiles_where_memory_allows() {
    let (inputs, _) = tensors(&Inputs::new(
        Sizes {
            queries: 197,
            ..SIZES
        },
        1,
    ));
    let [q, k, _] = inputs;
    let of_a_query = SIZES.images * SIZES.heads * SIZES.keys;
    let block = |queries: usize| block::<Flex>(&q, &k, of_a_query * queries);
    let found = [197, 196, 128, 127, 64, 63, 1].map(block);
    let expected = [
        None,
        Some(192),
        Some(128),
        Some(64),
        Some(64),
        Some(63),
        Some(1),
    ];
    assert_eq!(found, expected);
}
