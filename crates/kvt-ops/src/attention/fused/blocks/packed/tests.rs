#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::attention::fused::blocks::testing::{agree_with_sorting, inputs, solve};

/// No kernel, and those that this CPU can run.
fn kernels() -> impl Iterator<Item = Option<Kernel>> {
    [None].into_iter().chain(Kernel::all().map(Some))
}

/// Panels of several widths, images of one and of several blocks, in parts and not, and channels that do not fill a line. Where few keys are
/// kept, and channels fill lines, the others are skipped.
#[test]
fn outputs_and_gradients_agree_with_sorting() {
    for sizes @ [_, _, keys, ..] in [
        [1, 33, 40, 16, 16],
        [1, 300, 65, 17, 32],
        [2, 131, 197, 64, 80],
        [9, 13, 17, 32, 21],
        [9, 150, 17, 16, 6],
    ] {
        let inputs = inputs(sizes, 3);
        for kept in [1, keys / 2, keys] {
            for kernel in kernels() {
                agree_with_sorting::<f32>(kernel, &inputs, kept, 1e-5);
            }
        }
    }
}

/// Three images, each in parts.
#[test]
fn results_are_the_same_with_any_number_of_threads() {
    let inputs = inputs([3, 300, 43, 16, 16], 7);
    for (kernel, kept) in kernels().flat_map(|kernel| [5, 30, 43].map(|kept| (kernel, kept))) {
        let [one, five] = [1, 5].map(|threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
            let pool = pool.build().unwrap();
            pool.install(|| solve::<f32>(kernel, &inputs, kept))
        });
        assert_eq!(one, five, "{kept}, {kernel:?}");
    }
}

#[test]
fn few_queries_and_small_products_have_no_kernel() {
    let best = Kernel::detect().is_some();
    let has = |queries, keys, dims| kernel(queries, keys, dims).is_some();
    assert_eq!(has(24, 24, [16, 16]), best);
    assert_eq!(has(24, 24, [6, 16]), best);
    assert_eq!(has(24, 24, [16, 6]), best);
    assert!(!has(23, 400, [64, 64]));
    // A block has at most 64 queries.
    assert!(!has(10_000, 16, [8, 8]));
    assert_eq!(has(10_000, 17, [8, 8]), best);
}
