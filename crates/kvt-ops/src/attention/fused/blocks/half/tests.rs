#![expect(clippy::unwrap_used, reason = "tests")]

use kvt_testing::naive::NAMES;

use super::*;
use crate::attention::AttentionSettings;
use crate::attention::fused::blocks::testing::{agree_with_sorting, heads, inputs, solve};
use crate::cpu::bf16::testing::kernels;

fn halves(values: &[f32]) -> Vec<bf16> {
    values.iter().map(|x| bf16::from_f32(*x)).collect()
}

/// Sizes that fill tiles and pairs, and others; images that threads share, of one and of several blocks, and images that are divided among them.
#[test]
fn outputs_and_gradients_agree_with_sorting() {
    for sizes @ [_, _, keys, ..] in [
        [1, 33, 40, 16, 16],
        [1, 90, 65, 17, 32],
        [2, 131, 197, 64, 16],
        [9, 13, 17, 32, 21],
        [9, 70, 17, 16, 16],
    ] {
        let mut inputs = inputs(sizes, 3);
        for x in [&mut inputs.v, &mut inputs.probe] {
            *x = halves(x).into_iter().map(bf16::to_f32).collect();
        }
        for kept in [1, keys / 2, keys] {
            for kernel in kernels().into_iter().flatten() {
                agree_with_sorting::<bf16>(kernel, &inputs, kept, 1e-2);
            }
        }
    }
}

/// Three images, each in parts: a single thread computes two of them with the same memory.
#[test]
fn results_are_the_same_with_any_number_of_threads() {
    let inputs = inputs([3, 150, 23, 16, 16], 7);
    for kernel in kernels().into_iter().flatten() {
        let [one, five] = [1, 5].map(|threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
            pool.build()
                .unwrap()
                .install(|| solve::<bf16>(kernel, &inputs, 10))
        });
        assert_eq!(one, five, "{kernel:?}");
    }
}

/// A query with a NaN makes its own row NaN, and the gradients of all keys and values of its head.
#[test]
fn an_undefined_row_affects_no_other_query() {
    let inputs = inputs([1, 30, 21, 16, 16], 5);
    let mut odd = inputs.clone();
    odd.q[16 * 31] = f32::NAN;
    for kernel in kernels().into_iter().flatten() {
        let [expected, actual] = [&inputs, &odd].map(|inputs| solve::<bf16>(kernel, inputs, 10));
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
        let tensors = [dim, dim, value_dim].map(|dim| heads::<bf16>(&[], 1, keys, dim));
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
