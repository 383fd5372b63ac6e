//! Unfold and fold on every device against loops over windows and pixels, outputs and gradients.

use burn::tensor::{DType, Device, Tensor};
use kvt_ops::{Window, fold, unfold};

use kvt_testing::devices::{assert_close, devices, tensor, values};

/// `[height, width]`, kernel, stride and padding: those of T2T, TNT and VOLO; windows that skip pixels, and windows that
/// cover only padding; a single pixel.
const CASES: [([usize; 2], usize, usize, usize); 9] = [
    ([32, 32], 7, 4, 2),
    ([9, 9], 3, 2, 1),
    ([12, 8], 4, 4, 0),
    ([5, 7], 3, 1, 1),
    ([8, 8], 3, 2, 1),
    ([10, 7], 2, 3, 0),
    ([2, 3], 2, 1, 2),
    ([2, 2], 5, 2, 3),
    ([1, 1], 1, 1, 0),
];
const BATCH: usize = 2;
const CHANNELS: usize = 3;

fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count)
        .map(|i| ((i * 7919 + seed * 104_729) % 2003) as f32 / 1000.0 - 1.0)
        .collect()
}

/// Calls `visit` with the index of a number in the columns and the index of its pixel in the images, for all but the padding.
fn for_each([height, width]: [usize; 2], settings: Window, mut visit: impl FnMut(usize, usize)) {
    let Window {
        kernel,
        stride,
        padding,
    } = settings;
    let [rows, columns] = settings.positions([height, width]);
    let mut place = 0;
    for channel in 0..BATCH * CHANNELS {
        for (down, right) in (0..kernel).flat_map(|y| (0..kernel).map(move |x| (y, x))) {
            for (row, column) in (0..rows).flat_map(|y| (0..columns).map(move |x| (y, x))) {
                let (y, x) = (row * stride + down, column * stride + right);
                let inside = (padding..padding + height).contains(&y)
                    && (padding..padding + width).contains(&x);
                if inside {
                    visit(
                        place,
                        (channel * height + y - padding) * width + x - padding,
                    );
                }
                place += 1;
            }
        }
    }
}

/// Images and columns, and the results of unfold and fold by definition.
fn defined(size: [usize; 2], settings: Window) -> [Vec<f32>; 4] {
    let images = numbers(BATCH * CHANNELS * size[0] * size[1], 1);
    let [rows, columns] = settings.positions(size);
    let columns = numbers(
        BATCH * CHANNELS * settings.kernel.pow(2) * rows * columns,
        2,
    );
    let (mut unfolded, mut folded) = (vec![0.0; columns.len()], vec![0.0; images.len()]);
    for_each(size, settings, |column, pixel| {
        unfolded[column] = images[pixel];
        folded[pixel] += columns[column];
    });
    [images, columns, unfolded, folded]
}

fn settings(kernel: usize, stride: usize, padding: usize) -> Window {
    Window {
        kernel,
        stride,
        padding,
    }
}

#[test]
fn both_are_as_defined_and_each_is_the_gradient_of_the_other() {
    for (size, kernel, stride, padding) in CASES {
        let settings = settings(kernel, stride, padding);
        let [images, columns, unfolded, folded] = defined(size, settings);
        let [rows, across] = settings.positions(size);
        for (name, device) in devices() {
            let device = device.autodiff();
            let case = |what| format!("{name} {size:?} {settings:?}: {what}");
            let x = tensor(&images, [BATCH, CHANNELS, size[0], size[1]], &device).require_grad();
            let shape = [BATCH, CHANNELS * kernel * kernel, rows * across];
            let y = tensor(&columns, shape, &device).require_grad();
            let (to, back) = (unfold(x.clone(), settings), fold(y.clone(), size, settings));
            assert_eq!(to.dims(), shape, "{}", case("shape"));
            let grads =
                (to.clone() * y.clone().detach()).sum() + (back.clone() * x.clone().detach()).sum();
            let grads = grads.backward();
            assert_eq!(values(to), unfolded, "{}", case("unfold"));
            assert_close(&case("fold"), &values(back), &folded, 1e-6);
            let [of_x, of_y] = [
                values(x.grad(&grads).unwrap()),
                values(y.grad(&grads).unwrap()),
            ];
            assert_close(&case("gradient of the images"), &of_x, &folded, 1e-6);
            assert_eq!(of_y, unfolded, "{}", case("gradient of the columns"));
        }
    }
}

/// `<unfold x, y> = <x, fold y>`, independent of the loops above.
#[test]
fn fold_is_the_adjoint_of_unfold() {
    let device = Device::flex();
    let dot = |a: Vec<f32>, b: Vec<f32>| -> f64 {
        let pairs = a.iter().zip(&b);
        pairs.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    };
    for (size, kernel, stride, padding) in CASES {
        let settings = settings(kernel, stride, padding);
        let [images, columns, ..] = defined(size, settings);
        let x = tensor(&images, [BATCH, CHANNELS, size[0], size[1]], &device);
        let unfolded = unfold(x, settings);
        let y = tensor(&columns, unfolded.dims(), &device);
        let folded = values(fold(y, size, settings));
        let (a, b) = (dot(values(unfolded), columns), dot(images, folded));
        assert!((a - b).abs() < 1e-4, "{settings:?}: {a} is not {b}");
    }
}

/// The result of `torch.nn.functional.unfold(torch.arange(18.).view(1, 2, 3, 3), 2)`.
#[test]
fn the_order_is_pytorchs() {
    let expected = [
        [0, 1, 3, 4],
        [1, 2, 4, 5],
        [3, 4, 6, 7],
        [4, 5, 7, 8],
        [9, 10, 12, 13],
        [10, 11, 13, 14],
        [12, 13, 15, 16],
        [13, 14, 16, 17],
    ];
    let expected: Vec<f32> = expected.as_flattened().iter().map(|x| *x as f32).collect();
    for (name, device) in devices() {
        let pixels: Vec<f32> = (0..18).map(|x| x as f32).collect();
        let columns = unfold(tensor(&pixels, [1, 2, 3, 3], &device), settings(2, 1, 0));
        assert_eq!(columns.dims(), [1, 8, 4]);
        assert_eq!(values(columns.clone()), expected, "{name}");
        let ones = Tensor::ones_like(&columns);
        let counts = values(fold(ones, [3, 3], settings(2, 1, 0)));
        let expected = [1.0, 2.0, 1.0, 2.0, 4.0, 2.0, 1.0, 2.0, 1.0].repeat(2);
        assert_eq!(counts, expected, "{name}");
    }
}

/// For a permuted view, and in f16, which represents these numbers exactly.
#[test]
fn views_and_half_types_give_the_same() {
    let settings = settings(3, 2, 1);
    for (name, device) in devices() {
        let data: Vec<f32> = (0..2 * 6 * 5 * 4).map(|i| (i % 64) as f32).collect();
        let view = tensor(&data, [2, 6, 5, 4], &device).permute([0, 3, 1, 2]);
        let copy = tensor(&values(view.clone()), view.dims(), &device);
        let expected = unfold(copy, settings);
        let half = view.cast(DType::F16);
        let columns = unfold(half, settings);
        assert_eq!(columns.dtype(), DType::F16);
        let sums = fold(
            columns.clone().swap_dims(1, 2).swap_dims(1, 2),
            [6, 5],
            settings,
        );
        assert_eq!(sums.dtype(), DType::F16);
        assert_eq!(values(columns), values(expected.clone()), "{name}");
        assert_eq!(
            values(sums),
            values(fold(expected, [6, 5], settings)),
            "{name}"
        );
    }
}

/// T2T-ViT has 56 x 56 and 28 x 28 at 224 pixels.
#[test]
fn positions_are_those_of_a_convolution() {
    assert_eq!(settings(7, 4, 2).positions([224, 223]), [56, 56]);
    assert_eq!(settings(3, 2, 1).positions([56, 29]), [28, 15]);
    assert_eq!(settings(5, 2, 1).positions([2, 8]), [0, 3]);
}

#[test]
#[should_panic(expected = "does not fit images")]
fn a_window_larger_than_the_image_is_refused() {
    let _ = unfold(
        Tensor::zeros([1, 2, 2, 8], &Device::flex()),
        settings(5, 2, 1),
    );
}

#[test]
#[should_panic(expected = "does not give columns")]
fn columns_of_another_image_are_refused() {
    let _ = fold(
        Tensor::zeros([1, 8, 5], &Device::flex()),
        [3, 3],
        settings(2, 1, 0),
    );
}
