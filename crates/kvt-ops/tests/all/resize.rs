//! Bilinear resizing against its definition in double precision, on every device.

use kvt_ops::resize_bilinear;
use kvt_testing::devices::{assert_close, devices, devices_of, tensor, values};

const SHAPE: [usize; 2] = [2, 3];
const MAPS: usize = 6;

/// Different numbers in no order.
fn numbers(count: usize) -> Vec<f32> {
    (0..count)
        .map(|i| (i * 7919 % 2003) as f32 / 1000.0 - 1.0)
        .collect()
}

/// The share of input `i` of `from` in output `at` of `to`: a tent of width 1 around its place, the border continued.
fn share(i: usize, from: usize, at: usize, to: usize) -> f64 {
    let place = (at as f64 + 0.5) * from as f64 / to as f64 - 0.5;
    let place = place.max(0.0).min(from as f64 - 1.0);
    (1.0 - (place - i as f64).abs()).max(0.0)
}

/// Output and gradient.
fn defined(
    x: &[f32],
    [height, width]: [usize; 2],
    [rows, columns]: [usize; 2],
    probe: &[f32],
) -> (Vec<f32>, Vec<f32>) {
    let (mut out, mut grad) = (vec![0.0; MAPS * rows * columns], vec![0.0; x.len()]);
    for (place, out) in out.iter_mut().enumerate() {
        let (map, row, column) = (
            place / (rows * columns),
            place / columns % rows,
            place % columns,
        );
        for (i, j) in (0..height).flat_map(|i| (0..width).map(move |j| (i, j))) {
            let share = share(i, height, row, rows) * share(j, width, column, columns);
            let at = (map * height + i) * width + j;
            *out += share * f64::from(x[at]);
            grad[at] += share * f64::from(probe[place]);
        }
    }
    let single = |x: Vec<f64>| x.into_iter().map(|x| x as f32).collect();
    (single(out), single(grad))
}

#[test]
fn outputs_and_gradients_match_the_definition() {
    // Larger, smaller, one of each, by whole factors, from and to a single pixel, and without a change.
    for (from, to) in [
        ([5, 7], [10, 13]),
        ([9, 8], [4, 3]),
        ([3, 8], [7, 5]),
        ([4, 4], [16, 16]),
        ([1, 1], [3, 2]),
        ([6, 5], [1, 1]),
        ([3, 4], [3, 9]),
        ([3, 4], [3, 4]),
    ] {
        let x = numbers(MAPS * from[0] * from[1]);
        let probe = numbers(MAPS * to[0] * to[1]);
        let expected = defined(&x, from, to, &probe);
        // On a GPU, products with weights that do not depend on the device: one case there, which is smaller; a larger one in `golden.rs`.
        for (name, device) in devices_of(to == [4, 3]) {
            let device = device.autodiff();
            let [batch, channels] = SHAPE;
            let leaf = tensor(&x, [batch, channels, from[0], from[1]], &device).require_grad();
            // A permuted view.
            let view = leaf.clone().swap_dims(2, 3).mul_scalar(1.0).swap_dims(2, 3);
            let out = resize_bilinear(view, to);
            let probe = tensor(&probe, [batch, channels, to[0], to[1]], &device);
            let grads = (out.clone() * probe).sum().backward();
            let case = format!("{name} {from:?} to {to:?}");
            assert_close(&case, &values(out), &expected.0, 2e-6);
            let grad = values(leaf.grad(&grads).unwrap());
            assert_close(&format!("{case}: gradient"), &grad, &expected.1, 2e-6);
        }
    }
}

/// The type stays, and the interpolation is in f32: rounded once.
#[test]
fn half_types_are_interpolated_in_f32() {
    use burn::tensor::DType;
    let x = numbers(MAPS * 35);
    for (name, device) in devices().into_iter().take(1) {
        let x = tensor(&x, [2, 3, 5, 7], &device).cast(DType::BF16);
        let expected = resize_bilinear(x.clone().cast(DType::F32), [8, 9]).cast(DType::BF16);
        let out = resize_bilinear(x, [8, 9]);
        assert_eq!(out.dtype(), DType::BF16, "{name}");
        assert_eq!(values(out), values(expected), "{name}");
    }
}

#[test]
#[should_panic(expected = "cannot have the size [0, 3]")]
fn an_empty_size_is_refused() {
    let x = tensor(&[0.0; 4], [1, 1, 2, 2], &burn::tensor::Device::flex());
    resize_bilinear(x, [0, 3]);
}
