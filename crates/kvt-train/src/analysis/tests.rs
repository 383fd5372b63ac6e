#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::HashSet;

use burn::tensor::{Device, Tensor, TensorData};

use super::*;

fn tensor<const D: usize>(values: &[f32], shape: [usize; D]) -> Tensor<D> {
    Tensor::from_data(TensorData::new(values.to_vec(), shape), &Device::flex())
}

fn numbers(tensor: Tensor<1>) -> Vec<f64> {
    let numbers = tensor.into_data().try_to_vec::<f32>().unwrap();
    numbers.into_iter().map(f64::from).collect()
}

/// The numbers of a measure.
fn of(found: &[(Measure, Tensor<1>)], measure: Measure) -> Vec<f64> {
    let mut found = found.iter();
    let (_, values) = found.find(|(other, _)| *other == measure).unwrap();
    numbers(values.clone())
}

#[track_caller]
fn close(actual: &[f64], expected: &[f64]) {
    assert_eq!(actual.len(), expected.len());
    for (a, e) in actual.iter().zip(expected) {
        assert!((a - e).abs() < 1e-5, "{actual:?} instead of {expected:?}");
    }
}

/// Two parallel tokens of different length and an orthogonal one: one pair of three has cosine 1. Then two opposite tokens and a
/// zero token.
#[test]
fn cosines_of_pairs_by_hand() {
    let tokens = [
        [2.0, 0.0, 0.5, 0.0, 0.0, 9.0],
        [1.0, 1.0, -3.0, -3.0, 0.0, 0.0],
    ];
    let found = cosine_similarity(tensor(&tokens.concat(), [2, 3, 2])).unwrap();
    close(&numbers(found), &[1.0 / 3.0, -1.0 / 3.0]);
    assert!(cosine_similarity(tensor(&[1.0, 2.0], [2, 1, 1])).is_none());
}

/// Uniform weights on k of n keys have the population standard deviation `sqrt(n / k - 1) / n`: 0.004999 for 100 of 197, and
/// 0.01562 for 32 of 65.
#[test]
fn deviations_of_uniform_weights() {
    for (keys, kept, expected) in [(197usize, 100usize, 0.004999), (65, 32, 0.015625)] {
        let weight = |key| if key < kept { 1.0 / kept as f32 } else { 0.0 };
        let weights: Vec<f32> = (0..keys).map(weight).collect();
        let found = deviations(tensor(&weights, [1, 1, 1, keys]));
        let (n, k) = (keys as f64, kept as f64);
        let population = (n / k - 1.0).sqrt() / n;
        assert!((population - expected).abs() < 1e-5);
        let sample = population * (n / (n - 1.0)).sqrt();
        let all = [
            Measure::StdPopulation,
            Measure::Std,
            Measure::StdKeptPopulation,
        ];
        let all = all.map(|measure| of(&found, measure)[0]);
        assert!((all[0] - population).abs() < 1e-7 && (all[1] - sample).abs() < 1e-7);
        assert!(all[2].abs() < 1e-7);
        close(&of(&found, Measure::Kept), &[k]);
    }
}

/// One row with weights 1/4 and 3/4 on two of four keys, and one with all its weight on a single key.
#[test]
fn deviations_of_kept_keys_by_hand() {
    let weights = [0.25f32, 0.0, 0.75, 0.0, 0.0, 1.0, 0.0, 0.0];
    let found = deviations(tensor(&weights, [1, 1, 2, 4]));
    // About the means 1/2 and 1; the second row has one key, and so 0.
    close(&of(&found, Measure::StdKeptPopulation), &[0.25 / 2.0]);
    close(&of(&found, Measure::StdKept), &[0.125f64.sqrt() / 2.0]);
    // About the mean 1/4 of all keys: the squares are 0, 1/16, 1/4, 1/16 in the first row, and 9/16 and three times 1/16 in the second.
    let [first, second] = [0.375f64, 0.75];
    let mean = |by: f64| f64::midpoint((first / by).sqrt(), (second / by).sqrt());
    close(&of(&found, Measure::StdPopulation), &[mean(4.0)]);
    close(&of(&found, Measure::Std), &[mean(3.0)]);
    close(&of(&found, Measure::Kept), &[1.5]);
}

/// The branch has twice the norm of the stream at the class token, and half of it at the patch.
#[test]
fn ratios_by_hand() {
    let stream = tensor(&[3.0, 4.0, 0.0, 2.0], [1, 2, 2]);
    let branch = tensor(&[6.0, -8.0, 1.0, 0.0], [1, 2, 2]);
    let [tokens, patches, whole] = ratios(branch, stream, 1).map(Option::unwrap);
    close(&numbers(tokens), &[1.25]);
    close(&numbers(patches), &[0.5]);
    close(&numbers(whole), &[101f64.sqrt() / 29f64.sqrt()]);
}

/// The nonlocality of uniform attention is the mean distance between two patches, 7.2808 on 14 x 14 and 3.6095 on 7 x 7; if each
/// patch attends only to itself, it is 0.
#[test]
fn nonlocality_of_uniform_attention() {
    let device = Device::flex();
    for (side, expected) in [(14usize, 7.2808), (8, 4.1365), (7, 3.6095)] {
        let patches = side * side;
        // Half of the weight is on the class token, which comes first.
        let row = vec![0.5f32 / patches as f32; patches];
        let row = [vec![0.5], row].concat();
        let weights = row.repeat(patches + 1);
        let weights = tensor(&weights, [1, 1, patches + 1, patches + 1]);
        let raw = between_patches(weights, 1);
        let distances = distances([side; 2], &device);
        let mean = |weights| numbers(nonlocality(weights, distances.clone()).reshape([1]))[0];
        assert!((mean(raw.clone()) - expected / 2.0).abs() < 1e-4);
        assert!((mean(renormalized(raw)) - expected).abs() < 1e-4);
        let own = Tensor::<2>::eye(patches, &device).unsqueeze::<4>();
        assert!(mean(own).abs() < 1e-9);
    }
    // Queries that attend only to the class token.
    close(
        &numbers(renormalized(tensor(&[0.0; 4], [1, 1, 2, 2])).reshape([4])),
        &[0.0; 4],
    );
}

/// Mean and error do not depend on how the numbers are split into batches.
#[test]
fn moments_of_batches_are_those_of_all() {
    let all = [1e6 + 3.0, 1e6 + 1.0, 1e6 + 4.0, 1e6 + 1.0, 1e6 + 5.0];
    for cuts in [vec![5], vec![2, 2, 1], vec![1, 4], vec![1, 1, 1, 1, 1]] {
        let (mut moments, mut first) = (Moments::default(), 0);
        for count in cuts {
            let part = &all[first..first + count];
            let mean = part.iter().sum::<f64>() / count as f64;
            let squares = part.iter().map(|x| (x - mean).powi(2)).sum();
            moments.merge(Moments::new(count as u64, mean, squares));
            first += count;
        }
        let found = moments.estimate().unwrap();
        // Squares about the mean 2.8: 0.04 + 3.24 + 1.44 + 3.24 + 4.84 = 12.8.
        assert!((found.mean - (1e6 + 2.8)).abs() < 1e-9);
        assert!((found.error.unwrap() - (12.8f64 / 4.0 / 5.0).sqrt()).abs() < 1e-9);
        assert_eq!(found.images, 5);
    }
    assert_eq!(Moments::default().estimate(), None);
    assert_eq!(Moments::new(1, 2.0, 0.0).estimate().unwrap().error, None);
    // One by one: 1, 2 and 6 differ from 3 by 4, 1 and 9 in squares.
    let mut moments = Moments::default();
    moments.extend([1.0, 2.0, 6.0]);
    let found = moments.estimate().unwrap();
    assert!((found.mean - 3.0).abs() < 1e-12);
    assert!((found.error.unwrap() - (14.0_f64 / 6.0).sqrt()).abs() < 1e-12);
}

/// The number of tokens alone says neither: 5 are a class token before 2 x 2 patches, or four registers before one.
#[test]
fn a_map_is_a_grid_behind_a_prefix() {
    for (tokens, prefix, expected) in [
        (197, 1, Some(14)),
        (198, 2, Some(14)),
        (196, 0, Some(14)),
        (201, 5, Some(14)),
        (260, 4, Some(16)),
        (9, 5, Some(2)),
        (9, 0, Some(3)),
        (5, 4, Some(1)),
        (197, 0, None),
        (1, 1, None),
        (1, 5, None),
    ] {
        let grid = map_grid(tokens, prefix, [224, 224]);
        assert_eq!(grid, expected.map(|side| [side; 2]), "{tokens} {prefix}");
    }
    // 37 tokens may be 6 x 6 or 4 x 9 patches: the image tells.
    for (tokens, image, expected) in [
        (25, [64, 96], Some([4, 6])),
        (25, [96, 64], Some([6, 4])),
        (37, [96, 96], Some([6, 6])),
        (37, [64, 144], Some([4, 9])),
        (25, [96, 96], None),
        (1, [64, 96], None),
        (25, [64, 0], None),
    ] {
        assert_eq!(map_grid(tokens, 1, image), expected, "{tokens} {image:?}");
    }
}

/// Of 2 x 3 patches: from a corner to its neighbours, along the diagonals, and back.
#[test]
fn distances_follow_the_rows_of_a_rectangle() {
    let found = numbers(distances([2, 3], &Device::flex()).reshape([36]));
    let (two, five) = (2f64.sqrt(), 5f64.sqrt());
    close(&found[..6], &[0.0, 1.0, 2.0, 1.0, two, five]);
    close(&found[24..30], &[two, 1.0, two, 1.0, 0.0, 1.0]);
}

#[test]
fn names_of_measures_are_different() {
    let names: HashSet<&str> = Measure::ALL.iter().map(|measure| measure.name()).collect();
    assert_eq!(names.len(), Measure::ALL.len());
}
