//! Max pooling against its definition, window by window, on every device.

use kvt_ops::{Window, max_pool2d};

use kvt_testing::devices::{assert_close, devices_of, tensor, values};

const PLANES: usize = 6;

/// Numbers in no order; with few `levels`, windows have several largest pixels.
fn numbers(count: usize, levels: usize) -> Vec<f32> {
    (0..count)
        .map(|i| (i * 7919 % 2003 % levels) as f32 / 8.0 - 1.0)
        .collect()
}

/// Output and gradient: of several largest pixels, the first one of a window gets it.
fn defined(
    x: &[f32],
    [height, width]: [usize; 2],
    settings: Window,
    probe: &[f32],
) -> (Vec<f32>, Vec<f32>) {
    let Window {
        kernel,
        stride,
        padding,
    } = settings;
    let steps = |length: usize| (length + 2 * padding - kernel) / stride + 1;
    let (mut out, mut grad) = (Vec::new(), vec![0.0; x.len()]);
    for plane in 0..PLANES {
        for (row, column) in (0..steps(height)).flat_map(|y| (0..steps(width)).map(move |x| (y, x)))
        {
            let within = |at: usize, length: usize| {
                let from = at * stride;
                (from.max(padding)..(from + kernel).min(length + padding)).map(|i| i - padding)
            };
            let mut best: Option<usize> = None;
            for y in within(row, height) {
                for column in within(column, width) {
                    let place = (plane * height + y) * width + column;
                    if best.is_none_or(|best| x[place] > x[best]) {
                        best = Some(place);
                    }
                }
            }
            let best = best.unwrap();
            grad[best] += probe[out.len()];
            out.push(x[best]);
        }
    }
    (out, grad)
}

#[test]
fn outputs_and_gradients_match_the_definition() {
    // So-ViT's; an odd map; without padding; one window; windows that do not touch; rows of more than one register.
    for (size, [kernel, stride, padding]) in [
        ([8, 8], [3, 2, 1]),
        ([5, 9], [3, 2, 1]),
        ([6, 7], [2, 2, 0]),
        ([3, 3], [3, 1, 0]),
        ([7, 8], [2, 3, 1]),
        ([4, 5], [3, 1, 1]),
        ([6, 41], [3, 2, 1]),
        ([3, 50], [2, 1, 1]),
    ] {
        let settings = Window {
            kernel,
            stride,
            padding,
        };
        for levels in [2003, 3] {
            let x = numbers(PLANES * size[0] * size[1], levels);
            // A GPU runs Burn's operation.
            for (name, device) in devices_of(size == [5, 9]) {
                let device = device.autodiff();
                // A permuted view.
                let leaf = tensor(&x, [2, 3, size[0], size[1]], &device)
                    .swap_dims(2, 3)
                    .require_grad();
                let out = max_pool2d(leaf.clone().swap_dims(2, 3), settings);
                let probe = numbers(out.shape().num_elements(), 997);
                let expected = defined(&x, size, settings, &probe);
                let probe = tensor(&probe, out.dims(), &device);
                let grads = (out.clone() * probe).sum().backward();
                let grad = leaf.grad(&grads).unwrap().swap_dims(2, 3);
                let case = format!("{name} {size:?} by {kernel}, {levels} levels");
                assert_eq!(values(out), expected.0, "{case}");
                assert_close(&case, &values(grad), &expected.1, 1e-6);
            }
        }
    }
}

/// As in PyTorch, a NaN wins.
#[test]
fn a_nan_is_not_hidden() {
    let device = burn::tensor::Device::flex().autodiff();
    let x = tensor(&[1.0, f32::NAN, 3.0, 4.0], [1, 1, 2, 2], &device).require_grad();
    let settings = Window {
        kernel: 2,
        stride: 2,
        padding: 0,
    };
    let out = max_pool2d(x.clone(), settings);
    let grads = out.clone().sum().backward();
    assert!(values(out)[0].is_nan());
    assert_eq!(values(x.grad(&grads).unwrap()), [0.0, 1.0, 0.0, 0.0]);
}

/// In rows of more than one register, and where windows overlap: each gives its gradient to its first NaN, or first pixel of -inf.
#[test]
fn the_first_nan_and_the_first_of_endless_pixels_have_the_gradient() {
    let device = burn::tensor::Device::flex().autodiff();
    let (height, width) = (2, 41);
    let mut numbers = numbers(height * width, 2003);
    numbers[20..26].fill(f32::NEG_INFINITY);
    numbers[width + 20..width + 26].fill(f32::NEG_INFINITY);
    numbers[10] = f32::NAN;
    numbers[width + 9] = f32::NAN;
    let x = tensor(&numbers, [1, 1, height, width], &device).require_grad();
    let settings = Window {
        kernel: 2,
        stride: 1,
        padding: 0,
    };
    let out = max_pool2d(x.clone(), settings);
    let grads = out.clone().sum().backward();
    let (out, grad) = (values(out), values(x.grad(&grads).unwrap()));
    let nan: Vec<usize> = (0..width - 1).filter(|at| out[*at].is_nan()).collect();
    assert_eq!(nan, [8, 9, 10]);
    // Windows 9 and 10 hold the NaN of the first row, window 8 only that of the second.
    assert_eq!([grad[10], grad[width + 9]], [2.0, 1.0]);
    let endless: Vec<usize> = (0..width - 1)
        .filter(|at| out[*at] == f32::NEG_INFINITY)
        .collect();
    assert_eq!(endless, [20, 21, 22, 23, 24]);
    assert_eq!(grad[20..25], [1.0; 5]);
}

#[test]
#[should_panic(expected = "does not fit images")]
fn padding_of_more_than_half_a_window_is_refused() {
    let x = tensor(&[0.0; 4], [1, 1, 2, 2], &burn::tensor::Device::flex());
    let settings = Window {
        kernel: 2,
        stride: 1,
        padding: 2,
    };
    max_pool2d(x, settings);
}
