//! Pooling of maps.

use burn::tensor::Tensor;
use burn::tensor::ops::PadMode;
use kvt_ops::{in_type, widened};

/// The mean of each square of `size` pixels, as PyTorch's `AvgPool2d(size, size, ceil_mode=True)`: squares at the
/// lower and right border may be cut off, and are the means of their remaining pixels.
///
/// Half types are summed in f32. Composed of simple operations, since these squares do not overlap: Burn's own
/// pooling would divide some of the cut squares by the pixels of a whole one.
///
/// # Shapes
///
/// `[batch, channels, height, width]` to `[batch, channels, rows, columns]`, with `rows = height / size`, rounded up, and
/// `columns` likewise. `size` is at least 1.
pub fn avg_pool_ceil(x: Tensor<4>, size: usize) -> Tensor<4> {
    let [batch, channels, height, width] = x.dims();
    if size <= 1 {
        return x;
    }
    let dtype = x.dtype();
    let x = widened(x);
    let (rows, columns) = (height.div_ceil(size), width.div_ceil(size));
    let (below, right) = (rows * size - height, columns * size - width);
    let device = x.device();
    let x = match below + right {
        0 => x,
        _ => x.pad((0, right, 0, below), PadMode::Constant(0.0)),
    };
    // One square per place, its rows and columns apart.
    let sums = x
        .reshape([batch * channels * rows, size, columns, size])
        .sum_dim(3)
        .sum_dim(1)
        .reshape([batch, channels, rows, columns]);
    let areas: Vec<f32> = (0..rows)
        .flat_map(|row| (0..columns).map(move |column| (row, column)))
        .map(|(row, column)| {
            let side = |at: usize, length: usize| size.min(length - at * size);
            1.0 / (side(row, height) * side(column, width)) as f32
        })
        .collect();
    if below + right == 0 {
        return in_type(sums / (size * size) as f64, dtype);
    }
    let areas = Tensor::<1>::from_floats(areas.as_slice(), &device);
    in_type(sums * areas.reshape([1, 1, rows, columns]), dtype)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use kvt_testing::devices::{assert_close, devices_of, tensor, values};

    use super::*;

    const CHANNELS: usize = 3;

    /// Different numbers in no order.
    fn numbers(count: usize) -> Vec<f32> {
        (0..count)
            .map(|i| (i * 7919 % 2003) as f32 / 1000.0 - 1.0)
            .collect()
    }

    /// Output and gradient for a permuted view, with an output gradient that is not constant.
    fn run(
        [height, width]: [usize; 2],
        device: &burn::tensor::Device,
        pool: impl Fn(Tensor<4>) -> Tensor<4>,
    ) -> (Vec<f32>, Vec<f32>) {
        let pixels = numbers(2 * CHANNELS * height * width);
        let x = tensor(&pixels, [2, CHANNELS, width, height], device).require_grad();
        let out = pool(x.clone().swap_dims(2, 3));
        let probe = numbers(out.shape().num_elements());
        let probe = tensor(&probe, out.dims(), device);
        let grads = (out.clone() * probe).sum().backward();
        let grad = x.grad(&grads).unwrap().swap_dims(2, 3);
        (values(out), values(grad))
    }

    /// Output and gradient from `window`, which gets the pixels of a window and adds `share` times the gradient of the output
    /// to each.
    fn defined(
        [height, width]: [usize; 2],
        [kernel, stride, padding, ceil]: [usize; 4],
        window: impl Fn(&[f32]) -> (f32, Vec<f32>),
    ) -> (Vec<f32>, Vec<f32>) {
        let pixels = numbers(2 * CHANNELS * height * width);
        let steps = |length: usize| {
            let room = length + 2 * padding + ceil * (stride - 1) - kernel;
            room / stride + 1
        };
        let (mut out, mut grad) = (Vec::new(), vec![0.0; pixels.len()]);
        let probe = numbers(2 * CHANNELS * steps(height) * steps(width));
        for image in 0..2 * CHANNELS {
            for (row, column) in
                (0..steps(height)).flat_map(|y| (0..steps(width)).map(move |x| (y, x)))
            {
                let within = |at: usize, length: usize| {
                    let from = at * stride;
                    (from.max(padding)..(from + kernel).min(length + padding)).map(|i| i - padding)
                };
                // `pixels` is stored column by column.
                let places: Vec<usize> = within(row, height)
                    .flat_map(|y| within(column, width).map(move |x| (x, y)))
                    .map(|(x, y)| (image * width + x) * height + y)
                    .collect();
                let seen: Vec<f32> = places.iter().map(|place| pixels[*place]).collect();
                let (value, shares) = window(&seen);
                for (place, share) in places.into_iter().zip(shares) {
                    let (x, y) = (place / height % width, place % height);
                    grad[(image * height + y) * width + x] += share * probe[out.len()];
                }
                out.push(value);
            }
        }
        (out, grad)
    }

    #[test]
    fn an_average_is_of_the_pixels_that_there_are() {
        let mean = |pixels: &[f32]| {
            let count = pixels.len() as f32;
            let sum: f32 = pixels.iter().sum();
            (sum / count, vec![1.0 / count; pixels.len()])
        };
        for (image, size) in [
            ([6, 4], 2),
            ([5, 7], 2),
            ([7, 4], 3),
            ([2, 1], 4),
            ([3, 2], 1),
        ] {
            let (out, grad) = defined(image, [size, size, 0, 1], mean);
            for (name, device) in devices_of(size == 3) {
                let actual = run(image, &device.autodiff(), |x| avg_pool_ceil(x, size));
                let case = format!("{name} {image:?} by {size}");
                assert_close(&case, &actual.0, &out, 1e-6);
                assert_close(&case, &actual.1, &grad, 1e-6);
            }
        }
    }
}
