//! Depthwise convolution: each channel is convolved separately, with one or more filters.
//!
//! On the CPU, the gradients of Burn's convolution use a matrix product per channel; here they are sums of shifted rows.
//! GPUs use Burn's convolution, on images whose channels are repeated for every filter: Burn's depthwise kernel takes one
//! filter per channel, and the tuner may choose it for more, which fails at launch.

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::{
    Autodiff, Backend, Dispatch, TensorMetadata, backend_extension, tensor::FloatTensor,
};
use burn::tensor::ops::ConvOptions;
use burn::tensor::{Shape, Tensor};

use crate::autodiff::{record, split};

mod cpu;

/// Depthwise convolutions on a backend; the default implementations are Burn's.
#[backend_extension(Cube: cfg(feature = "cube"), Flex, Capture: cfg(feature = "export"), Autodiff, Fusion: cfg(feature = "cube"))]
pub(crate) trait DepthwiseOps: Backend {
    /// The convolution of x `[batch, channels, height, width]` with `weight`
    /// `[channels * filters, 1, kernel, kernel]`.
    #[fusion(default)]
    fn depthwise(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        stride: usize,
        padding: usize,
    ) -> FloatTensor<Self> {
        burn_forward::<Self>(x, weight, stride, padding)
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
        burn_backward::<Self>(x, weight, grad, stride, padding)
    }
}

#[cfg(feature = "cube")]
impl DepthwiseOps for burn_cubecl::CubeBackend {}

impl<B: DepthwiseOps, C: CheckpointStrategy> DepthwiseOps for Autodiff<B, C> {
    fn depthwise(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        stride: usize,
        padding: usize,
    ) -> FloatTensor<Self> {
        let (nodes, [x, weight]) = split([x, weight]);
        let out = B::depthwise(x.clone(), weight.clone(), stride, padding);
        let state = (x, weight, stride, padding);
        record::<B, C, _, _>(nodes, out, state, |(x, weight, stride, padding), grad| {
            B::depthwise_backward(x, weight, grad, stride, padding).into()
        })
    }
}

/// Burn's convolution.
fn burn_forward<B: Backend>(
    x: FloatTensor<B>,
    weight: FloatTensor<B>,
    stride: usize,
    padding: usize,
) -> FloatTensor<B> {
    let outputs = weight.shape()[0];
    let x = repeated::<B>(x, outputs);
    B::conv2d(x, weight, None, options(outputs, stride, padding))
}

/// The gradients of x and the weight with Burn's convolutions.
fn burn_backward<B: Backend>(
    x: FloatTensor<B>,
    weight: FloatTensor<B>,
    grad: FloatTensor<B>,
    stride: usize,
    padding: usize,
) -> (FloatTensor<B>, FloatTensor<B>) {
    let (shape, outputs) = (x.shape(), weight.shape()[0]);
    let x = repeated::<B>(x, outputs);
    let options = options(outputs, stride, padding);
    let x_grad = B::conv2d_x_backward(x.clone(), weight.clone(), grad.clone(), options.clone());
    (
        summed::<B>(x_grad, &shape),
        B::conv2d_weight_backward(x, weight, grad, options),
    )
}

/// `[batch, channels, height, width]` to `[batch, outputs, height, width]`: repeats every channel for each of its filters.
fn repeated<B: Backend>(x: FloatTensor<B>, outputs: usize) -> FloatTensor<B> {
    let [batch, channels, height, width] = x.shape().dims();
    if outputs == channels {
        return x;
    }
    let x = B::float_reshape(x, Shape::new([batch, channels, 1, height * width]));
    let filters = outputs / channels;
    let x = B::float_expand(x, Shape::new([batch, channels, filters, height * width]));
    B::float_reshape(x, Shape::new([batch, outputs, height, width]))
}

/// The gradient of the input of [`repeated`] from the gradient of its output.
fn summed<B: Backend>(grad: FloatTensor<B>, shape: &Shape) -> FloatTensor<B> {
    let [batch, channels, height, width] = shape.dims();
    let outputs = grad.shape()[1];
    if outputs == channels {
        return grad;
    }
    let apart = Shape::new([batch, channels, outputs / channels, height * width]);
    let grad = B::float_sum_dim(B::float_reshape(grad, apart), 2);
    B::float_reshape(grad, shape.clone())
}

fn options(channels: usize, stride: usize, padding: usize) -> ConvOptions<2> {
    ConvOptions::new([stride; 2], [padding; 2], [1, 1], channels)
}

/// Depthwise convolution on any device: output channel `o` is computed from input channel `o / filters`.
///
/// # Shapes
/// - `x`: `[batch, channels, height, width]`
/// - `weight`: `[channels * filters, 1, kernel, kernel]`
/// - output: `[batch, channels * filters, rows, columns]`, with
///   `rows = (height + 2 padding - kernel) / stride + 1` and `columns` likewise
///
/// # Panics
/// If the shape of the weight does not match, the stride is 0, or the kernel is larger than the padded image.
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
