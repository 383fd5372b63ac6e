//! k-NN softmax on GPUs, the CubeCL runtimes: launches of the kernels in `gpu/kernel.rs`, which choose keys by the crate's
//! `gpu/select.rs`.

use burn::backend::{TensorMetadata, cubecl::dtype_to_storage_type, tensor::FloatTensor};
use burn_cubecl::{CubeBackend, kernel::into_contiguous, tensor::CubeTensor};

use self::kernel::{knn_softmax_backward_kernel, knn_softmax_kernel};
use super::KnnSoftmaxOps;
use crate::gpu::launch::{Launch, empty};

mod kernel;

impl KnnSoftmaxOps for CubeBackend {
    fn knn_softmax(scores: FloatTensor<Self>, k: usize) -> FloatTensor<Self> {
        if scores.shape().num_elements() == 0 {
            return scores;
        }
        let launch = Launch::new(&scores);
        forward(scores, k, launch)
    }

    fn knn_softmax_backward(
        probabilities: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        scale: f64,
    ) -> FloatTensor<Self> {
        if probabilities.shape().num_elements() == 0 {
            return probabilities;
        }
        let launch = Launch::new(&probabilities);
        backward(probabilities, grad, scale, launch)
    }
}

fn forward(scores: CubeTensor, k: usize, launch: Launch) -> CubeTensor {
    let scores = into_contiguous(scores);
    let output = empty(&scores, scores.shape(), scores.dtype);
    let (client, dtype) = (scores.client.clone(), scores.dtype);
    knn_softmax_kernel::launch(
        &client,
        launch.count,
        launch.dim,
        scores.required_address_type(),
        scores.into_tensor_arg(),
        output.clone().into_tensor_arg(),
        launch.rows,
        launch.width,
        k.min(launch.width as usize) as u32,
        launch.strategy,
        launch.chunk,
        launch.held,
        dtype_to_storage_type(dtype),
    );
    output
}

fn backward(probabilities: CubeTensor, grad: CubeTensor, scale: f64, launch: Launch) -> CubeTensor {
    let probabilities = into_contiguous(probabilities);
    let grad = into_contiguous(grad);
    let output = empty(&probabilities, probabilities.shape(), probabilities.dtype);
    let (client, dtype) = (probabilities.client.clone(), probabilities.dtype);
    knn_softmax_backward_kernel::launch(
        &client,
        launch.count,
        launch.dim,
        probabilities.required_address_type(),
        probabilities.into_tensor_arg(),
        grad.into_tensor_arg(),
        output.clone().into_tensor_arg(),
        launch.rows,
        launch.width,
        scale as f32,
        launch.strategy,
        launch.chunk,
        dtype_to_storage_type(dtype),
    );
    output
}

#[cfg(all(test, feature = "wgpu"))]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use burn::backend::ops::FloatTensorOps;
    use burn::tensor::FloatDType;

    use super::*;
    use crate::gpu::testing::{device, folded, strategies};

    /// Probabilities by sorting every row, in f64.
    fn sorted(scores: &[f32], width: usize, k: usize) -> Vec<f32> {
        let row = |row: &[f32]| {
            let best = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            if row.iter().any(|x| x.is_nan()) || !best.is_finite() {
                return vec![f32::NAN; width];
            }
            let mut order: Vec<usize> = (0..width).collect();
            order.sort_by(|&a, &b| row[b].total_cmp(&row[a]).then(a.cmp(&b)));
            order.truncate(k);
            let weight = |i: usize| (f64::from(row[i]) - f64::from(best)).exp();
            let sum: f64 = order.iter().map(|&i| weight(i)).sum();
            let mut out = vec![0.0; width];
            for i in order {
                out[i] = (weight(i) / sum) as f32;
            }
            out
        };
        scores.chunks(width).flat_map(row).collect()
    }

    #[track_caller]
    fn assert_close(actual: &[f32], expected: &[f32], least: f32, what: &str) {
        assert_eq!(actual.len(), expected.len(), "{what}");
        for (i, (a, e)) in actual.iter().zip(expected).enumerate() {
            let same = (a.is_nan() && e.is_nan()) || (a - e).abs() <= 2e-5 * e.abs().max(least);
            assert!(same, "{what}: {i} is {a}, not {e}");
        }
    }

    /// Few distinct values, so that scores tie. The last four rows: all scores equal, all -inf, one +inf, one NaN.
    fn scores(rows: usize, width: usize) -> Vec<f32> {
        let mut scores: Vec<f32> = (0..rows * width)
            .map(|i| ((i * 7919 + i / 13) % 37) as f32 * 0.25 - 4.0)
            .collect();
        let at = |from_the_end: usize| (rows - from_the_end) * width;
        scores[at(4)..at(3)].fill(1.5);
        scores[at(3)..at(2)].fill(f32::NEG_INFINITY);
        scores[at(2) + width / 2] = f32::INFINITY;
        scores[at(1) + width / 3] = f32::NAN;
        scores
    }

    #[test]
    fn every_row_strategy_keeps_the_best() {
        let Some(device) = device() else { return };
        for (rows, width) in [(5, 1), (133, 6), (9, 197), (6, 3136), (5, 20_000)] {
            let data = scores(rows, width);
            for k in [1, 2, width / 2, width - 1, width] {
                if k == 0 {
                    continue;
                }
                let expected = sorted(&data, width, k);
                for kind in strategies(&device) {
                    let scores = device.tensor(&data, [rows, width]);
                    let launch = folded(Launch::with(&scores, kind));
                    let actual = device.values(forward(scores, k, launch));
                    let what = format!("{kind:?} [{rows}, {width}], k = {k}");
                    assert_close(&actual, &expected, 1e-3, &what);
                }
            }
        }
    }

    /// Row lengths around the longest that threads hold in registers, for rows split by thread, by subgroup and by group of a
    /// workgroup. Half types are read as f32.
    #[test]
    fn the_longest_rows_in_registers_keep_the_best() {
        let Some(device) = device() else { return };
        let halves = device.halves();
        for kind in strategies(&device) {
            let mut lengths = 2..4096usize;
            let held = |width: &usize| {
                let row = device.tensor(&vec![0.0; *width], [1, *width]);
                Launch::with(&row, kind).held
            };
            // The first length that is not held; the one before it is the longest that is.
            let first = lengths.find(|width| held(width) == 0).unwrap();
            assert!(first > 32, "{kind:?}: {first}");
            for width in [first - 2, first - 1, first] {
                let data = scores(7, width);
                for k in [1, width / 2, width] {
                    let expected = sorted(&data, width, k);
                    let scores = device.tensor(&data, [7, width]);
                    let launch = folded(Launch::with(&scores, kind));
                    let what = format!("{kind:?}, {width} keys, k = {k}");
                    let actual = device.values(forward(scores.clone(), k, launch));
                    assert_close(&actual, &expected, 1e-3, &what);
                    for dtype in &halves {
                        // The score values are exact in half types.
                        let scores = CubeBackend::float_cast(scores.clone(), (*dtype).into());
                        let launch = folded(Launch::with(&scores, kind));
                        let actual = forward(scores, k, launch);
                        let actual = CubeBackend::float_cast(actual, FloatDType::F32);
                        assert_half(&device.values(actual), &expected, &what);
                    }
                }
            }
        }
    }

    /// Compares probabilities that were rounded to 16 bits.
    #[track_caller]
    fn assert_half(actual: &[f32], expected: &[f32], what: &str) {
        assert_eq!(actual.len(), expected.len(), "{what}");
        for (i, (a, e)) in actual.iter().zip(expected).enumerate() {
            let same = (a.is_nan() && e.is_nan()) || (a - e).abs() <= 4e-3 * e.abs() + 1e-6;
            assert!(same, "{what}: {i} is {a}, not {e}");
        }
    }

    /// `0.3 P (dP - sum(P dP))` for rows that keep half of their keys.
    #[test]
    fn every_row_strategy_has_the_same_gradient() {
        let Some(device) = device() else { return };
        for (rows, width) in [(133, 6), (9, 197), (5, 20_000)] {
            let mut data = scores(rows, width);
            data.truncate((rows - 3) * width);
            let rows = rows - 3;
            let p = sorted(&data, width, width.div_ceil(2));
            let grad: Vec<f32> = (0..rows * width).map(|i| (i % 11) as f32 - 5.0).collect();
            let row = |(p, g): (&[f32], &[f32])| -> Vec<f32> {
                let pairs = || p.iter().zip(g).map(|(p, g)| (f64::from(*p), f64::from(*g)));
                let mean: f64 = pairs().map(|(p, g)| p * g).sum();
                pairs()
                    .map(|(p, g)| (0.3 * p * (g - mean)) as f32)
                    .collect()
            };
            let expected: Vec<f32> = p
                .chunks(width)
                .zip(grad.chunks(width))
                .flat_map(row)
                .collect();
            for kind in strategies(&device) {
                let p = device.tensor(&p, [rows, width]);
                let launch = folded(Launch::with(&p, kind));
                let grad = device.tensor(&grad, [rows, width]);
                let actual = device.values(backward(p, grad, 0.3, launch));
                // P multiplies a difference of numbers up to 5.
                assert_close(
                    &actual,
                    &expected,
                    0.1,
                    &format!("{kind:?} [{rows}, {width}]"),
                );
            }
        }
    }
}
