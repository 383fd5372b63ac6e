//! Unfold (im2col), the windows of an image as columns, and fold, the sum of such columns where they overlap. Each is
//! the gradient of the other.
//!
//! Burn implements both as convolutions with one-hot weights; the cost of its unfold grows with the square of the number
//! of values in a window, over all channels.

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::{
    Autodiff, Backend, Dispatch, TensorMetadata, backend_extension, tensor::FloatTensor,
};
use burn::tensor::{Shape, Tensor};

use crate::autodiff::{record, split};
use crate::window::Window;

mod cpu;
#[cfg(feature = "cube")]
mod gpu;

impl Window {
    /// The shape of the columns of images of `[batch, channels, height, width]`.
    fn unfolded(self, images: &Shape) -> Shape {
        let [batch, channels, height, width] = images.dims();
        let [rows, columns] = self.positions([height, width]);
        Shape::new([batch, channels * self.kernel.pow(2), rows * columns])
    }

    /// The shape of the images of `[height, width]` pixels with columns of `[batch, channels * kernel^2, positions]`.
    fn folded(self, columns: &Shape, [height, width]: [usize; 2]) -> Shape {
        let [batch, lines, _] = columns.dims();
        Shape::new([batch, lines / self.kernel.pow(2), height, width])
    }
}

/// Unfold and fold on a backend, for windows that fit.
#[backend_extension(Cube: cfg(feature = "cube"), Flex, Capture: cfg(feature = "export"), Autodiff, Fusion: cfg(feature = "cube"))]
pub(crate) trait UnfoldOps: Backend {
    /// See [`unfold`].
    #[fusion(dtype = x, shape = settings.unfolded(x))]
    fn unfold_windows(x: FloatTensor<Self>, settings: Window) -> FloatTensor<Self>;

    /// See [`fold`].
    #[fusion(dtype = x, shape = settings.folded(x, *size))]
    fn fold_windows(x: FloatTensor<Self>, size: [usize; 2], settings: Window) -> FloatTensor<Self>;
}

impl<B: UnfoldOps, C: CheckpointStrategy> UnfoldOps for Autodiff<B, C> {
    fn unfold_windows(x: FloatTensor<Self>, settings: Window) -> FloatTensor<Self> {
        let [_, _, height, width] = x.shape().dims();
        let (node, [x]) = split([x]);
        let out = B::unfold_windows(x, settings);
        let state = ([height, width], settings);
        record::<B, C, _, _>(node, out, state, |(size, settings), grad| {
            [B::fold_windows(grad, size, settings)]
        })
    }

    fn fold_windows(x: FloatTensor<Self>, size: [usize; 2], settings: Window) -> FloatTensor<Self> {
        let (node, [x]) = split([x]);
        let out = B::fold_windows(x, size, settings);
        record::<B, C, _, _>(node, out, settings, |settings, grad| {
            [B::unfold_windows(grad, settings)]
        })
    }
}

/// The windows of each image as columns, on any device, in the order of PyTorch's `Unfold`. The CPU computes f64 in f32.
///
/// # Shapes
/// `[batch, channels, height, width]` to `[batch, channels * kernel^2, positions]`: within a column, the channel varies
/// slowest, then the rows of the window, then its pixels; the windows follow each other row by row ([`Window::positions`]).
///
/// # Panics
/// If the kernel or the stride is 0, an image is empty, or the kernel is larger than the padded image.
pub fn unfold(x: Tensor<4>, settings: Window) -> Tensor<3> {
    let [_, _, height, width] = x.dims();
    assert!(
        settings.fits([height, width]),
        "unfold: {settings:?} does not fit images of shape {:?}",
        x.dims()
    );
    Tensor::from_dispatch(Dispatch::unfold_windows(x.into_dispatch(), settings))
}

/// The images of `size`, `[height, width]`, whose pixels are the sums of the values that the columns have for them, on any
/// device; as PyTorch's `Fold`. Half types are summed in f32, and the CPU computes f64 in f32.
///
/// It is the adjoint of [`unfold`], not its inverse: a pixel in three windows is the sum of three numbers.
///
/// # Shapes
/// `[batch, channels * kernel^2, positions]` to `[batch, channels, height, width]`.
///
/// # Panics
/// As [`unfold`] of such images, and if the shape of the columns does not match.
pub fn fold(x: Tensor<3>, size: [usize; 2], settings: Window) -> Tensor<4> {
    let [_, lines, positions] = x.dims();
    let [rows, columns] = settings.positions(size);
    assert!(
        settings.fits(size)
            && positions == rows * columns
            && lines.is_multiple_of(settings.kernel.pow(2)),
        "fold: {settings:?} over images of {size:?} pixels does not give columns of shape {:?}",
        x.dims()
    );
    Tensor::from_dispatch(Dispatch::fold_windows(x.into_dispatch(), size, settings))
}
