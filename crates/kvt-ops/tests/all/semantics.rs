//! The semantics of the selection as properties, compared with a naive implementation that sorts.

use burn::tensor::{DType, Tensor};
use kvt_ops::knn_softmax;
use proptest::prelude::*;

use kvt_testing::devices::{assert_close, devices, tensor, values};

/// Sorts every row by (score descending, index ascending) and computes the softmax in f64.
fn naive(scores: &[f32], keys: usize, k: usize) -> Vec<f32> {
    let mut out = vec![0.0f32; scores.len()];
    for (row, out) in scores.chunks(keys).zip(out.chunks_mut(keys)) {
        let best = row.iter().fold(f32::NEG_INFINITY, |m, &x| m.max(x));
        if row.iter().any(|x| x.is_nan()) || best.is_infinite() {
            out.fill(f32::NAN);
            continue;
        }
        let mut order: Vec<usize> = (0..keys).collect();
        order.sort_by(|&a, &b| row[b].partial_cmp(&row[a]).unwrap().then(a.cmp(&b)));
        order.truncate(k);
        let weight = |i: usize| (f64::from(row[i]) - f64::from(best)).exp();
        let sum: f64 = order.iter().map(|&i| weight(i)).sum();
        for i in order {
            out[i] = (weight(i) / sum) as f32;
        }
    }
    out
}

#[track_caller]
fn check(name: &str, scores: &[f32], keys: usize, k: usize, actual: &[f32]) {
    let expected = naive(scores, keys, k);
    for (i, (a, e)) in actual.iter().zip(&expected).enumerate() {
        let same = (a.is_nan() && e.is_nan()) || (a - e).abs() <= 2e-6;
        assert!(
            same,
            "{name}: k = {k}, row {}, key {}: {a} is not {e}",
            i / keys,
            i % keys
        );
        assert_eq!(
            *a == 0.0,
            *e == 0.0,
            "{name}: k = {k}, {i}: another survivor"
        );
    }
}

/// Difficult scores: few distinct values, both zeros, infinities, subnormal numbers.
fn awkward() -> impl Strategy<Value = f32> {
    prop_oneof![
        4 => (-3i8..4).prop_map(|x| f32::from(x) * 0.5),
        4 => -8.0f32..8.0,
        1 => Just(-0.0f32),
        1 => Just(f32::NEG_INFINITY),
        1 => Just(f32::from_bits(1)),
        1 => Just(-f32::from_bits(1)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_sorting(
        rows in proptest::collection::vec(proptest::collection::vec(awkward(), 1..70), 1..2),
        copies in 1usize..5,
        k in 1usize..80,
    ) {
        let keys = rows[0].len();
        // Rotates every row differently.
        let scores: Vec<f32> = (0..copies)
            .flat_map(|by| { let mut row = rows[0].clone(); row.rotate_left(by % keys); row })
            .collect();
        for (name, device) in devices() {
            let actual = values(knn_softmax(tensor(&scores, [copies, keys], &device), k));
            check(name, &scores, keys, k, &actual);
        }
    }
}

#[test]
fn every_k_of_long_rows() {
    // Lengths around the sizes of workgroups and subgroups, lengths that are not multiples of 32, and a long one.
    for keys in [1usize, 2, 31, 33, 197, 255, 257, 784, 3136, 16_384] {
        let scores: Vec<f32> = (0..2 * keys)
            .map(|i| ((i * 7919 % 1009) as f32 - 500.0) / 97.0)
            .collect();
        for k in [1, 2, keys / 2, keys.saturating_sub(1), keys, keys + 1] {
            if k == 0 {
                continue;
            }
            for (name, device) in devices() {
                let actual = values(knn_softmax(tensor(&scores, [2, keys], &device), k));
                check(name, &scores, keys, k, &actual);
                for row in actual.chunks(keys) {
                    let survivors = row.iter().filter(|p| **p > 0.0).count();
                    assert_eq!(survivors, k.min(keys), "{name}: {keys} keys");
                }
            }
        }
    }
}

#[test]
fn equal_scores_keep_the_lower_index() {
    for (name, device) in devices() {
        let out = values(knn_softmax(tensor(&[0.25; 34], [2, 17], &device), 5));
        for row in out.chunks(17) {
            assert_close(name, &row[..5], &[0.2; 5], 1e-6);
            assert_eq!(row[5..], [0.0; 12], "{name}");
        }
        // Both zeros are equal, so the index decides.
        let row = [1.0, -0.0, 0.0, -1.0, 0.0, -0.0, 2.0f32];
        for k in 1..=7 {
            let out = values(knn_softmax(tensor(&row, [1, 7], &device), k));
            check(name, &row, 7, k, &out);
        }
    }
}

#[test]
fn k_of_the_row_length_or_more_is_bit_equal_to_dense() {
    let scores: Vec<f32> = (0..9 * 197).map(|i| (i as f32 * 0.7).sin() * 5.0).collect();
    for (name, device) in devices() {
        let dense = values(knn_softmax(tensor(&scores, [9, 197], &device), 197));
        for k in [198, 100_000] {
            let out = values(knn_softmax(tensor(&scores, [9, 197], &device), k));
            assert_eq!(out, dense, "{name}");
        }
        let softmax = burn::tensor::activation::softmax(tensor(&scores, [9, 197], &device), 1);
        assert_close(name, &dense, &values(softmax), 1e-6);
    }
}

#[test]
fn nan_and_infinity_give_nan_rows_and_no_others() {
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    let rows = [
        [1.0, nan, 2.0, 0.0, -1.0],
        [1.0, -nan, 2.0, 0.0, -1.0],
        [1.0, 0.5, inf, 0.0, -1.0],
        [-inf, -inf, -inf, -inf, -inf],
        [1.0, 0.5, -inf, 0.0, -1.0],
    ];
    for (name, device) in devices() {
        for k in [1, 2, 5] {
            let out = values(knn_softmax(tensor(rows.as_flattened(), [5, 5], &device), k));
            check(name, rows.as_flattened(), 5, k, &out);
        }
    }
}

#[test]
fn half_types_are_selected_in_f32() {
    for (name, device) in devices() {
        for (dtype, tolerance) in [(DType::F16, 1e-3), (DType::BF16, 8e-3)] {
            if !device.supports_dtype(dtype) {
                kvt_testing::skipped(&format!("{name} has no {dtype:?}"));
                continue;
            }
            let scores: Vec<f32> = (0..4 * 33).map(|i| (i as f32 * 1.3).cos() * 4.0).collect();
            let x = tensor(&scores, [4, 33], &device).cast(dtype);
            let rounded = values(x.clone());
            let out = knn_softmax(x, 9);
            assert_eq!(out.dtype(), dtype, "{name}");
            assert_close(name, &values(out), &naive(&rounded, 33, 9), tolerance);
        }
    }
}

/// More rows than one dimension of a launch holds (65,535 on most devices).
#[test]
fn many_rows() {
    let (rows, keys) = (66_000, 4);
    let scores: Vec<f32> = (0..rows * keys)
        .map(|i| ((i * 31) % 101) as f32 * 0.1)
        .collect();
    for (name, device) in devices() {
        let out = values(knn_softmax(tensor(&scores, [rows, keys], &device), 2));
        check(name, &scores, keys, 2, &out);
    }
}

/// The gradient compared with finite differences of the naive implementation; dropped scores get 0.
#[test]
fn gradient_matches_finite_differences() {
    let (rows, keys) = (6, 17);
    // Values at least 0.05 apart: no perturbation changes the survivors.
    let scores: Vec<f32> = (0..rows * keys)
        .map(|i| ((i % keys * 7 + i / keys * 3) % keys) as f32 * 0.05 - 0.4)
        .collect();
    let weights: Vec<f32> = (0..rows * keys).map(|i| (i as f32 * 0.37).sin()).collect();
    let loss = |scores: &[f64], k: usize| -> f64 {
        let mut total = 0.0;
        for (row, w) in scores.chunks(keys).zip(weights.chunks(keys)) {
            let mut order: Vec<usize> = (0..keys).collect();
            order.sort_by(|&a, &b| row[b].total_cmp(&row[a]));
            let sum: f64 = order[..k].iter().map(|&i| row[i].exp()).sum();
            total += order[..k]
                .iter()
                .map(|&i| row[i].exp() / sum * f64::from(w[i]))
                .sum::<f64>();
        }
        total
    };
    for (name, device) in devices() {
        let plain = device.autodiff();
        for device in [plain.clone(), plain.gradient_checkpointing()] {
            for k in [1, 5, 17] {
                let x = tensor(&scores, [rows, keys], &device).require_grad();
                let w = tensor(&weights, [rows, keys], &device);
                let grads = (knn_softmax(x.clone(), k) * w).sum().backward();
                let actual = values(x.grad(&grads).unwrap());
                let mut point: Vec<f64> = scores.iter().map(|&x| f64::from(x)).collect();
                for i in 0..point.len() {
                    let (at, step) = (point[i], 1e-6);
                    point[i] = at + step;
                    let up = loss(&point, k);
                    point[i] = at - step;
                    let down = loss(&point, k);
                    point[i] = at;
                    let expected = ((up - down) / (2.0 * step)) as f32;
                    assert!(
                        (actual[i] - expected).abs() < 2e-6,
                        "{name}: k = {k}, {i}: {} is not {expected}",
                        actual[i]
                    );
                }
            }
        }
    }
}

/// The operation between lazy operations, on a permuted view, used twice: fusion must order it correctly.
#[test]
fn composes_with_fused_operations() {
    let keys = 17;
    let scores: Vec<f32> = (0..keys * keys)
        .map(|i| ((i * 7) % 23) as f32 * 0.11)
        .collect();
    for (name, device) in devices() {
        let run = |softmax: &dyn Fn(Tensor<2>) -> Tensor<2>| {
            let x = tensor(&scores, [keys, keys], &device.clone().autodiff()).require_grad();
            let p = softmax((x.clone() * 2.0 + 1.0).transpose());
            let out = (p.clone() * 3.0 - 1.0) * p;
            let grads = out.clone().sum().backward();
            (values(out), values(x.grad(&grads).unwrap()))
        };
        let ours = run(&|x| knn_softmax(x, keys));
        let burns = run(&|x| burn::tensor::activation::softmax(x, 1));
        assert_close(name, &ours.0, &burns.0, 1e-5);
        assert_close(name, &ours.1, &burns.1, 1e-5);
    }
}

#[test]
#[should_panic(expected = "k must be at least 1")]
fn zero_is_refused() {
    let _ = knn_softmax(Tensor::<2>::zeros([2, 2], &burn::tensor::Device::flex()), 0);
}
