//! Convolution of images.
//!
//! On the CPU, Burn copies images and gradients into other layouts and large new buffers around its matrix products.
//! Here the columns of a product are built in buffers that stay in the cache. GPUs use Burn's convolution.

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::{Autodiff, Backend, Dispatch, backend_extension, tensor::FloatTensor};
use burn::tensor::Tensor;
use burn::tensor::ops::ConvOptions;

use crate::autodiff::{record_asked, split};

mod cpu;

/// The movement of square kernels over an image.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Pixels between adjacent positions.
    stride: usize,
    /// Pixels of zeros on each side of the image.
    padding: usize,
    /// Groups of channels that do not mix.
    groups: usize,
}

impl Settings {
    fn burn(self) -> ConvOptions<2> {
        ConvOptions::new([self.stride; 2], [self.padding; 2], [1, 1], self.groups)
    }
}

/// Convolutions on a backend; the default implementations are Burn's.
#[backend_extension(Cube: cfg(feature = "cube"), Flex, Capture: cfg(feature = "export"), Autodiff, Fusion: cfg(feature = "cube"))]
pub(crate) trait ConvOps: Backend {
    /// The convolution of x `[batch, inputs, height, width]` with `weight` `[outputs, inputs / groups, kernel, kernel]`.
    #[fusion(default)]
    fn convolve(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        settings: Settings,
    ) -> FloatTensor<Self> {
        Self::conv2d(x, weight, None, settings.burn())
    }

    /// The gradient of x.
    #[fusion(default)]
    fn convolve_image_gradient(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        settings: Settings,
    ) -> FloatTensor<Self> {
        Self::conv2d_x_backward(x, weight, grad, settings.burn())
    }

    /// The gradient of the weight.
    #[fusion(default)]
    fn convolve_weight_gradient(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        settings: Settings,
    ) -> FloatTensor<Self> {
        Self::conv2d_weight_backward(x, weight, grad, settings.burn())
    }
}

#[cfg(feature = "cube")]
impl ConvOps for burn_cubecl::CubeBackend {}

impl<B: ConvOps, C: CheckpointStrategy> ConvOps for Autodiff<B, C> {
    fn convolve(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        settings: Settings,
    ) -> FloatTensor<Self> {
        let (nodes, [x, weight]) = split([x, weight]);
        let out = B::convolve(x.clone(), weight.clone(), settings);
        let state = (x, weight, settings);
        record_asked::<B, C, _, _>(nodes, out, state, |(x, weight, settings), grad, asked| {
            let image = asked[0].then(|| {
                B::convolve_image_gradient(x.clone(), weight.clone(), grad.clone(), settings)
            });
            let of_weight =
                asked[1].then(|| B::convolve_weight_gradient(x, weight, grad, settings));
            [image, of_weight]
        })
    }
}

/// The convolution of images on any device, as PyTorch's `conv2d` without a bias. Only the requested gradients are
/// computed.
///
/// # Shapes
/// - `x`: `[batch, inputs, height, width]`
/// - `weight`: `[outputs, inputs / groups, kernel, kernel]`
/// - output: `[batch, outputs, rows, columns]`, with
///   `rows = (height + 2 padding - kernel) / stride + 1` and `columns` likewise
///
/// # Panics
/// If the shape of the weight does not match, the number of channels is not a multiple of `groups`, the stride is 0, an
/// image is empty, or the kernel is larger than the padded image.
pub fn conv2d(
    x: Tensor<4>,
    weight: Tensor<4>,
    stride: usize,
    padding: usize,
    groups: usize,
) -> Tensor<4> {
    let ([_, inputs, height, width], [outputs, of_group, kernel, other]) =
        (x.dims(), weight.dims());
    let least = height.min(width);
    assert!(
        groups > 0
            && inputs > 0
            && outputs > 0
            && of_group * groups == inputs
            && outputs.is_multiple_of(groups)
            && least > 0
            && (1..=least + 2 * padding).contains(&kernel)
            && kernel == other
            && stride > 0,
        "conv2d: a weight of shape {:?} does not fit images of shape {:?} with a padding of {padding}, a stride of {stride} and {groups} groups",
        weight.dims(),
        x.dims()
    );
    let settings = Settings {
        stride,
        padding,
        groups,
    };
    let (x, weight) = (x.into_dispatch(), weight.into_dispatch());
    Tensor::from_dispatch(Dispatch::convolve(x, weight, settings))
}
