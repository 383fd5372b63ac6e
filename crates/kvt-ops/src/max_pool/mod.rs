//! Max pooling of images, forward and backward.
//!
//! On the CPU, Burn visits windows one by one on one thread and keeps an index for each. Here an element of all windows of a
//! row is compared at once, on all threads, and the backward pass finds the largest pixels again. GPUs use Burn's operation.

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::{
    Autodiff, Backend, Dispatch, TensorMetadata, backend_extension, tensor::FloatTensor,
};
use burn::tensor::Tensor;

use crate::autodiff::{record, split};
use crate::window::Window;

mod cpu;
mod phases;

/// Max pooling on a backend; the default implementations are Burn's.
#[backend_extension(Cube: cfg(feature = "cube"), Flex, Capture: cfg(feature = "export"), Autodiff, Fusion: cfg(feature = "cube"))]
pub(crate) trait MaxPoolOps: Backend {
    /// The largest pixel of each window of x `[batch, channels, height, width]`.
    #[fusion(default)]
    fn max_pool(x: FloatTensor<Self>, settings: Window) -> FloatTensor<Self> {
        forward::<Self>(x, settings)
    }

    /// The gradient of x: a window's goes to the first of its largest pixels.
    #[fusion(default)]
    fn max_pool_backward(
        x: FloatTensor<Self>,
        out: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        settings: Window,
    ) -> FloatTensor<Self> {
        let _ = out;
        backward::<Self>(x, grad, settings)
    }
}

#[cfg(feature = "cube")]
impl MaxPoolOps for burn_cubecl::CubeBackend {}

impl<B: MaxPoolOps, C: CheckpointStrategy> MaxPoolOps for Autodiff<B, C> {
    fn max_pool(x: FloatTensor<Self>, settings: Window) -> FloatTensor<Self> {
        let (node, [x]) = split([x]);
        let out = B::max_pool(x.clone(), settings);
        let state = ([x, out.clone()], settings);
        record::<B, C, _, _>(node, out, state, |([x, out], settings), grad| {
            [B::max_pool_backward(x, out, grad, settings)]
        })
    }
}

/// Burn's max pooling.
fn forward<B: Backend>(x: FloatTensor<B>, settings: Window) -> FloatTensor<B> {
    let [kernel, stride, padding] = pairs(settings);
    B::max_pool2d(x, kernel, stride, padding, [1, 1], false)
}

/// The gradient of Burn's max pooling.
fn backward<B: Backend>(
    x: FloatTensor<B>,
    grad: FloatTensor<B>,
    settings: Window,
) -> FloatTensor<B> {
    let [kernel, stride, padding] = pairs(settings);
    let dtype = burn::backend::get_device_settings::<B>(&x.device()).int_dtype;
    let found =
        B::max_pool2d_with_indices(x.clone(), kernel, stride, padding, [1, 1], false, dtype);
    let indices = found.indices;
    B::max_pool2d_with_indices_backward(x, kernel, stride, padding, [1, 1], false, grad, indices)
        .x_grad
}

/// Kernel, stride and padding in both directions.
fn pairs(settings: Window) -> [[usize; 2]; 3] {
    [settings.kernel, settings.stride, settings.padding].map(|length| [length; 2])
}

/// The largest pixel of each window, on any device, as PyTorch's `max_pool2d`. Padding never wins, and a NaN is larger than every number.
///
/// # Shapes
/// `[batch, channels, height, width]` to `[batch, channels, rows, columns]`, with
/// `rows = (height + 2 padding - kernel) / stride + 1` and `columns` likewise.
///
/// # Panics
/// If the kernel or the stride is 0, an image is empty, the padding is more than half of the kernel, or the kernel is larger
/// than the padded image.
pub fn max_pool2d(x: Tensor<4>, settings: Window) -> Tensor<4> {
    let [_, _, height, width] = x.dims();
    assert!(
        settings.fits([height, width]) && settings.padding <= settings.kernel / 2,
        "max_pool2d: {settings:?} does not fit images of shape {:?}",
        x.dims()
    );
    Tensor::from_dispatch(Dispatch::max_pool(x.into_dispatch(), settings))
}
