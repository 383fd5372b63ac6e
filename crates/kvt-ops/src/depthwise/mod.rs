//! Convolution of each channel on its own, with one or more filters per channel.
//!
//! Burn's is as fast on the CPU in one direction with one filter, but its gradients go through a
//! matrix product per channel. Here they are sums of shifted rows. Elsewhere it is Burn's.

use burn::backend::{Backend, Dispatch, TensorMetadata, backend_extension, tensor::FloatTensor};
use burn::tensor::Tensor;
use burn::tensor::ops::ConvOptions;

mod autodiff;
mod flex;

#[cfg(feature = "cube")]
impl DepthwiseOps for burn_cubecl::CubeBackend {}

/// What a backend provides for depthwise convolutions.
#[backend_extension(Cube: cfg(feature = "cube"), Flex, Autodiff, Fusion: cfg(feature = "cube"))]
pub trait DepthwiseOps: Backend {
    /// The convolution of x `[batch, channels, height, width]` with `weight`
    /// `[channels * filters, 1, kernel, kernel]`.
    #[fusion(default)]
    fn depthwise(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        stride: usize,
        padding: usize,
    ) -> FloatTensor<Self> {
        let options = options(x.shape()[1], stride, padding);
        Self::conv2d(x, weight, None, options)
    }

    /// The gradients of x and the weight.
    #[fusion(default)]
    fn depthwise_backward(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        stride: usize,
        padding: usize,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let options = options(x.shape()[1], stride, padding);
        (
            Self::conv2d_x_backward(x.clone(), weight.clone(), grad.clone(), options.clone()),
            Self::conv2d_weight_backward(x, weight, grad, options),
        )
    }
}

fn options(channels: usize, stride: usize, padding: usize) -> ConvOptions<2> {
    ConvOptions::new([stride; 2], [padding; 2], [1, 1], channels)
}

/// A convolution of each channel on its own, on any device: output channel `o` is made from input
/// channel `o / filters`.
///
/// # Shapes
/// - `x`: `[batch, channels, height, width]`
/// - `weight`: `[channels * filters, 1, kernel, kernel]`
/// - output: `[batch, channels * filters, rows, columns]`
///
/// # Panics
/// On a weight of another shape, a stride of 0, or a kernel larger than the padded image.
pub fn depthwise_conv2d(
    x: Tensor<4>,
    weight: Tensor<4>,
    stride: usize,
    padding: usize,
) -> Tensor<4> {
    let ([_, channels, height, width], [outputs, one, kernel, other]) = (x.dims(), weight.dims());
    let least = height.min(width) + 2 * padding;
    assert!(
        one == 1
            && (1..=least).contains(&kernel)
            && kernel == other
            && channels > 0
            && outputs.is_multiple_of(channels)
            && stride > 0,
        "depthwise_conv2d: a weight of shape {:?} does not fit images of shape {:?} with a padding of {padding} and a stride of {stride}",
        weight.dims(),
        x.dims()
    );
    let (x, weight) = (x.into_dispatch(), weight.into_dispatch());
    Tensor::from_dispatch(Dispatch::depthwise(x, weight, stride, padding))
}
