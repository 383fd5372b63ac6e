//! Convolution of images.
//!
//! On the CPU, Burn copies images and gradients into other layouts and large new buffers around its matrix products.
//! Here the columns of a product are built in buffers that stay in the cache.
//!
//! A depthwise convolution is one whose groups are single channels, with one or more filters each. The gradients of Burn's use a matrix
//! product per channel on the CPU; here they are sums of shifted rows.
//!
//! GPUs use Burn's convolution: a depthwise one on images whose channels are repeated for every filter. Burn's depthwise kernel takes one
//! filter per channel, and the tuner may choose it for more, which fails at launch.

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::{
    Autodiff, Backend, Dispatch, TensorMetadata, backend_extension, tensor::FloatTensor,
};
use burn::tensor::ops::ConvOptions;
use burn::tensor::{Shape, Tensor};

use crate::autodiff::{record_asked, split, split_optional};
use crate::optional::Optional;
use crate::window::Window;

mod cpu;

/// The movement of square kernels over an image.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    window: Window,
    /// Groups of channels that do not mix.
    groups: usize,
}

impl Settings {
    /// Images for Burn's convolution, with its options: for a depthwise one, every channel is repeated for each of its filters.
    fn repeated<B: Backend>(
        self,
        x: FloatTensor<B>,
        weight: &FloatTensor<B>,
    ) -> (FloatTensor<B>, ConvOptions<2>) {
        let Window {
            stride, padding, ..
        } = self.window;
        let options = |groups| ConvOptions::new([stride; 2], [padding; 2], [1, 1], groups);
        let ([batch, channels, height, width], outputs) = (x.shape().dims(), weight.shape()[0]);
        if self.groups != channels || channels == 1 || outputs == channels {
            return (x, options(self.groups));
        }
        let x = B::float_reshape(x, Shape::new([batch, channels, 1, height * width]));
        let filters = outputs / channels;
        let x = B::float_expand(x, Shape::new([batch, channels, filters, height * width]));
        let x = B::float_reshape(x, Shape::new([batch, outputs, height, width]));
        (x, options(outputs))
    }
}

/// Convolutions on a backend; the default implementations are Burn's.
#[backend_extension(Cube: cfg(feature = "cube"), Flex, Capture: cfg(feature = "export"), Autodiff, Fusion: cfg(feature = "cube"))]
pub(crate) trait ConvOps: Backend {
    /// The convolution of x `[batch, inputs, height, width]` with `weight` `[outputs, inputs / groups, kernel, kernel]` and a bias
    /// `[outputs]`.
    #[fusion(default)]
    fn convolve(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        #[extension_type] bias: Optional<Self>,
        settings: Settings,
    ) -> FloatTensor<Self> {
        let (x, options) = settings.repeated::<Self>(x, &weight);
        Self::conv2d(x, weight, bias.get(), options)
    }

    /// The gradient of the bias: the sum over images and positions.
    #[fusion(default)]
    fn convolve_bias_gradient(grad: FloatTensor<Self>) -> FloatTensor<Self> {
        let [batch, outputs, rows, columns] = grad.shape().dims();
        let planes = Self::float_reshape(grad, Shape::new([batch, outputs, rows * columns]));
        let sums = Self::float_sum_dim(Self::float_sum_dim(planes, 2), 0);
        Self::float_reshape(sums, Shape::new([outputs]))
    }

    /// The gradient of x.
    #[fusion(default)]
    fn convolve_image_gradient(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        settings: Settings,
    ) -> FloatTensor<Self> {
        let shape = x.shape();
        let (x, options) = settings.repeated::<Self>(x, &weight);
        summed::<Self>(Self::conv2d_x_backward(x, weight, grad, options), shape)
    }

    /// The gradient of the weight.
    #[fusion(default)]
    fn convolve_weight_gradient(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        settings: Settings,
    ) -> FloatTensor<Self> {
        let (x, options) = settings.repeated::<Self>(x, &weight);
        Self::conv2d_weight_backward(x, weight, grad, options)
    }
}

#[cfg(feature = "cube")]
impl ConvOps for burn_cubecl::CubeBackend {}

impl<B: ConvOps, C: CheckpointStrategy> ConvOps for Autodiff<B, C> {
    fn convolve(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: Optional<Self>,
        settings: Settings,
    ) -> FloatTensor<Self> {
        let ([of_x, of_weight], [x, weight]) = split([x, weight]);
        let (of_bias, bias) = split_optional::<B>(bias.get(), &x);
        let out = B::convolve(x.clone(), weight.clone(), Optional::<B>::of(bias), settings);
        let (nodes, state) = ([of_x, of_weight, of_bias], (x, weight, settings));
        record_asked::<B, C, _, _>(nodes, out, state, |(x, weight, settings), grad, asked| {
            let image = asked[0].then(|| {
                B::convolve_image_gradient(x.clone(), weight.clone(), grad.clone(), settings)
            });
            let of_weight =
                asked[1].then(|| B::convolve_weight_gradient(x, weight, grad.clone(), settings));
            let bias = asked[2].then(|| B::convolve_bias_gradient(grad));
            [image, of_weight, bias]
        })
    }
}

/// The gradient of the input of [`Settings::repeated`], of this shape, from that of its output.
fn summed<B: Backend>(grad: FloatTensor<B>, shape: Shape) -> FloatTensor<B> {
    let [batch, channels, height, width] = shape.dims();
    let outputs = grad.shape()[1];
    if outputs == channels {
        return grad;
    }
    let apart = Shape::new([batch, channels, outputs / channels, height * width]);
    let grad = B::float_sum_dim(B::float_reshape(grad, apart), 2);
    B::float_reshape(grad, shape)
}

/// The convolution of images on any device, as PyTorch's `conv2d`. Only the requested gradients are computed. The CPU computes half
/// types and f64 in f32.
///
/// # Shapes
/// - `x`: `[batch, inputs, height, width]`
/// - `weight`: `[outputs, inputs / groups, kernel, kernel]`
/// - `bias`: `[outputs]`, in the type of x
/// - output: `[batch, outputs, rows, columns]`, with
///   `rows = (height + 2 padding - kernel) / stride + 1` and `columns` likewise
///
/// # Panics
/// If the shape of the weight or the bias does not match, the number of channels is not a multiple of `groups`, the stride is 0, an
/// image is empty, or the kernel is larger than the padded image.
pub fn conv2d(
    x: Tensor<4>,
    weight: Tensor<4>,
    bias: Option<Tensor<1>>,
    stride: usize,
    padding: usize,
    groups: usize,
) -> Tensor<4> {
    let ([_, inputs, height, width], [outputs, of_group, kernel, other]) =
        (x.dims(), weight.dims());
    let window = Window {
        kernel,
        stride,
        padding,
    };
    let biases = bias.as_ref().map(|bias| bias.dims()[0]);
    assert!(
        groups > 0
            && inputs > 0
            && outputs > 0
            && of_group * groups == inputs
            && outputs.is_multiple_of(groups)
            && kernel == other
            && window.fits([height, width])
            && biases.is_none_or(|biases| biases == outputs),
        "conv2d: a weight of shape {:?} and {biases:?} biases do not fit images of shape {:?} with a padding of {padding}, a stride of {stride} and {groups} groups",
        weight.dims(),
        x.dims()
    );
    let settings = Settings { window, groups };
    let bias = Optional::<Dispatch>::of(bias.map(Tensor::into_dispatch));
    let (x, weight) = (x.into_dispatch(), weight.into_dispatch());
    Tensor::from_dispatch(Dispatch::convolve(x, weight, bias, settings))
}
