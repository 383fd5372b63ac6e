//! Several images and several blocks of queries: the CPU adds up the gradients of keys and values block by
//! block, in parts where there are few images, and those of a bias over all images.

use burn::tensor::Device;
use kvt_attention::Implementation;
use rayon::ThreadPoolBuilder;

use crate::compare::Case;
use crate::devices::devices_of;
use crate::naive::{Inputs, Sizes, draw};

fn sizes(images: usize, heads: usize, queries: usize, keys: usize) -> Sizes {
    Sizes {
        images,
        heads,
        queries,
        keys,
        dim: 6,
        value_dim: 5,
    }
}

fn biased(sizes: Sizes, seed: u64) -> Inputs {
    let len = sizes.heads * sizes.queries * sizes.keys;
    Inputs {
        bias: Some(draw(seed + 99, len, 9, 0.25)),
        ..Inputs::new(sizes, seed)
    }
}

#[test]
fn gradients_of_many_images_and_blocks_agree_with_sorting() {
    let device = Device::flex();
    for sizes in [
        // Blocks one after the other: three of about 50 queries, four, two of rows longer than a cache.
        sizes(9, 2, 150, 150),
        sizes(6, 2, 200, 200),
        sizes(9, 1, 70, 900),
        // In parts: some dozen blocks in eight, six in four, four in two.
        sizes(1, 2, 600, 600),
        sizes(2, 1, 330, 330),
        sizes(3, 1, 200, 1000),
    ] {
        let inputs = Inputs::new(sizes, 17);
        for kept in [1, sizes.keys / 3, sizes.keys] {
            Case::new(kept).check(&inputs, "flex", &device);
        }
    }
}

/// The parts of an image add up on any number of threads.
#[test]
fn gradients_in_parts_agree_with_sorting_on_any_number_of_threads() {
    let sizes = sizes(1, 2, 600, 220);
    let inputs = Inputs::new(sizes, 11);
    let case = Case::new(50);
    let expected = inputs.solve(case.scale, case.kept);
    let run = |threads| {
        let pool = ThreadPoolBuilder::new().num_threads(threads).build();
        pool.unwrap().install(|| {
            case.check_against(&inputs, &expected, "flex", &Device::flex());
            case.run(&inputs, &Device::flex())
        })
    };
    let one = run(1);
    for threads in [2, 3, 5, 8] {
        assert_eq!(run(threads), one, "{threads} threads");
    }
}

/// The sums of a bias run in parts where there are few heads: eight of images one by one, sixteen of eighteen
/// images, and one for each of twenty heads.
#[test]
fn gradients_of_a_bias_agree_with_sorting() {
    let all = [(9, 2, 150, 150), (18, 1, 40, 40), (3, 20, 30, 35)]
        .map(|(images, heads, queries, keys)| sizes(images, heads, queries, keys));
    for (sizes, kept) in all.into_iter().flat_map(|s| [(s, s.keys / 3), (s, s.keys)]) {
        let inputs = biased(sizes, 5);
        let expected = inputs.solve(Case::new(kept).scale, kept);
        for implementation in [Implementation::Auto, Implementation::Masked] {
            let case = Case::new(kept).by(implementation);
            case.check_against(&inputs, &expected, "flex", &Device::flex());
        }
    }
}

/// Sums for a bias do not depend on the number of threads.
#[test]
fn gradients_of_a_bias_are_the_same_on_any_number_of_threads() {
    let inputs = biased(sizes(9, 2, 70, 90), 5);
    let case = Case::new(30);
    let run = |threads| {
        let pool = ThreadPoolBuilder::new().num_threads(threads).build();
        pool.unwrap().install(|| case.run(&inputs, &Device::flex()))
    };
    let one = run(1);
    for threads in [2, 3, 8] {
        assert_eq!(run(threads), one, "{threads} threads");
    }
}

#[test]
fn every_device_and_implementation_agrees_with_sorting_over_images() {
    let sizes = sizes(3, 2, 37, 41);
    for inputs in [Inputs::new(sizes, 3), biased(sizes, 4)] {
        for kept in [13, 41] {
            let expected = inputs.solve(Case::new(kept).scale, kept);
            for implementation in [
                Implementation::Auto,
                Implementation::Flash,
                Implementation::Masked,
                Implementation::Gathered,
            ] {
                // On a GPU the sums of a bias, and the kernels, on vectors of two numbers.
                let one = if inputs.bias.is_some() {
                    Implementation::Auto
                } else {
                    Implementation::Flash
                };
                for (name, device) in devices_of(kept == 13 && implementation == one) {
                    let case = Case::new(kept).by(implementation);
                    case.check_against(&inputs, &expected, name, &device);
                }
            }
        }
    }
}
