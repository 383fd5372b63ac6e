//! Bilinear resizing of maps, forward and backward.
//!
//! Burn has no gradient of it on GPUs, and on the CPU it runs on one thread per image. Here the CPU has a kernel of its own. Elsewhere
//! resizing is two matrix products, one per axis, and its gradient the products with the transposed matrices;
//! CUDA may round their factors to TF32, as in all of Burn's products.

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::{
    Autodiff, Backend, Dispatch, TensorMetadata, backend_extension, tensor::FloatTensor,
};
use burn::tensor::{DType, Shape, Tensor, TensorData};

use crate::autodiff::{record, split};
use crate::convert::in_type;

mod cpu;

/// The two inputs of an output along one axis.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Tap {
    first: usize,
    second: usize,
    /// The share of the second; the rest is that of the first.
    share: f32,
}

/// The inputs of each output along an axis. The centre of a pixel is half a pixel from its border (`align_corners = False`), and
/// outputs beyond the outermost centres are the outermost pixels.
fn taps(from: usize, to: usize) -> impl ExactSizeIterator<Item = Tap> {
    let (scale, last) = (from as f64 / to as f64, from.saturating_sub(1));
    (0..to).map(move |at| {
        let place = ((at as f64 + 0.5) * scale - 0.5).clamp(0.0, last as f64);
        let first = place as usize;
        Tap {
            first,
            second: (first + 1).min(last),
            share: (place - first as f64) as f32,
        }
    })
}

/// Resizing on a backend, of non-empty maps `[batch, channels, height, width]` in f32. The default implementations are products with the
/// weights of the rows and of the columns.
#[backend_extension(Cube: cfg(feature = "cube"), Flex, Capture: cfg(feature = "export"), Autodiff, Fusion: cfg(feature = "cube"))]
pub(crate) trait ResizeOps: Backend {
    /// Maps of `size`, `[height, width]`.
    #[fusion(default)]
    fn resized(x: FloatTensor<Self>, size: [usize; 2]) -> FloatTensor<Self> {
        let [_, _, height, width] = x.shape().dims();
        let weights =
            [(height, size[0]), (width, size[1])].map(|(from, to)| weights::<Self>(&x, from, to));
        products::<Self>(x, weights)
    }

    /// The gradient of maps of `size`, from that of the resized ones.
    #[fusion(default)]
    fn resized_backward(grad: FloatTensor<Self>, size: [usize; 2]) -> FloatTensor<Self> {
        let [_, _, rows, columns] = grad.shape().dims();
        let weights = [(size[0], rows), (size[1], columns)]
            .map(|(from, to)| Self::float_swap_dims(weights::<Self>(&grad, from, to), 0, 1));
        products::<Self>(grad, weights)
    }
}

#[cfg(feature = "cube")]
impl ResizeOps for burn_cubecl::CubeBackend {}

impl<B: ResizeOps, C: CheckpointStrategy> ResizeOps for Autodiff<B, C> {
    fn resized(x: FloatTensor<Self>, size: [usize; 2]) -> FloatTensor<Self> {
        let [_, _, height, width] = x.shape().dims();
        let (node, [x]) = split([x]);
        let out = B::resized(x, size);
        record::<B, C, _, _>(node, out, [height, width], |size, grad| {
            [B::resized_backward(grad, size)]
        })
    }
}

/// The weights of the inputs of each output along an axis, `[to, from]`, on the device of `like`.
fn weights<B: Backend>(like: &FloatTensor<B>, from: usize, to: usize) -> FloatTensor<B> {
    let mut matrix = vec![0.0f32; to * from];
    for (row, tap) in matrix.chunks_exact_mut(from).zip(taps(from, to)) {
        row[tap.first] += 1.0 - tap.share;
        row[tap.second] += tap.share;
    }
    B::float_from_data(TensorData::new(matrix, [to, from]), &like.device())
}

/// `rows x columns^T` for each map of x, with rows `[out, height]` and columns `[out, width]`.
pub(crate) fn products<B: Backend>(
    x: FloatTensor<B>,
    [rows, columns]: [FloatTensor<B>; 2],
) -> FloatTensor<B> {
    let [batch, channels, height, width] = x.shape().dims();
    let ([to_height, _], [to_width, _]) = (rows.shape().dims(), columns.shape().dims());
    let maps = batch * channels;
    let x = B::float_reshape(x, Shape::new([maps * height, width]));
    let x = B::float_matmul(x, B::float_swap_dims(columns, 0, 1));
    let x = B::float_reshape(x, Shape::new([maps, height, to_width]));
    let rows = B::float_reshape(rows, Shape::new([1, to_height, height]));
    let x = B::float_matmul(rows, x);
    B::float_reshape(x, Shape::new([batch, channels, to_height, to_width]))
}

/// Maps of another size, `[height, width]`, by bilinear interpolation on any device: PyTorch's `interpolate(mode="bilinear",
/// align_corners=False)`, without antialiasing. All types are interpolated in f32.
///
/// # Shapes
/// `[batch, channels, height, width]` to `[batch, channels, size[0], size[1]]`.
///
/// # Panics
/// If a map or the size is empty.
pub fn resize_bilinear(x: Tensor<4>, size: [usize; 2]) -> Tensor<4> {
    let [_, _, height, width] = x.dims();
    assert!(
        height * width > 0 && !size.contains(&0),
        "resize_bilinear: maps of shape {:?} cannot have the size {size:?}",
        x.dims()
    );
    if [height, width] == size {
        return x;
    }
    let dtype = x.dtype();
    let out = Dispatch::resized(in_type(x, DType::F32).into_dispatch(), size);
    in_type(Tensor::from_dispatch(out), dtype)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: three pixels become five and two.
    #[test]
    fn centres_of_pixels_are_half_a_pixel_from_the_border() {
        let places = |from, to| -> Vec<f32> {
            let place = |tap: Tap| {
                let [first, second] = [tap.first, tap.second].map(|at| at as f32);
                first * (1.0 - tap.share) + second * tap.share
            };
            taps(from, to).map(place).collect()
        };
        let close = |found: Vec<f32>, expected: &[f32]| {
            assert_eq!(found.len(), expected.len());
            for (found, expected) in found.iter().zip(expected) {
                assert!((found - expected).abs() < 1e-6, "{found} {expected}");
            }
        };
        close(places(3, 5), &[0.0, 0.4, 1.0, 1.6, 2.0]);
        close(places(3, 2), &[0.25, 1.75]);
        close(places(1, 3), &[0.0; 3]);
        close(places(4, 1), &[1.5]);
    }
}
