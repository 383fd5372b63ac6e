//! The cross-entropy of every pixel of an image, forward and backward.
//!
//! Composed of Burn's operations, it keeps three copies of the logits for the backward pass, each of 157 MB for an image of 512 x 512
//! pixels and 150 classes. Here the backward pass needs the logits themselves and one number for each pixel.

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::{
    Autodiff, AutodiffBackend, Backend, Dispatch, TensorMetadata, backend_extension,
    get_device_settings,
    tensor::{BoolTensor, FloatTensor, IntTensor},
};
use burn::tensor::{DType, Int, IntDType, Scalar, Shape, Tensor};

use crate::autodiff::{record, split};
use crate::convert::in_type;

mod cpu;

/// What the sum of the pixels' losses is divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PixelAverage {
    /// All pixels, those without a class included: mmsegmentation's.
    All,
    /// The pixels with a class: PyTorch's.
    Valid,
}

/// Cross-entropy on a backend, for non-empty logits `[batch, classes, pixels]` in f32 and labels `[batch, pixels]`.
/// The default implementations are composed of Burn's operations.
#[backend_extension(Cube: cfg(feature = "cube"), Flex, Autodiff, Fusion: cfg(feature = "cube"))]
pub(crate) trait PixelCrossEntropyOps: Backend {
    /// The sum of the losses, `[1]`, and the logarithm of the sum of `exp(logits)` at each pixel, `[batch, pixels]`, through
    /// which no gradient passes.
    #[fusion(default)]
    fn pixel_losses(
        logits: FloatTensor<Self>,
        labels: IntTensor<Self>,
        ignore: i64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let [batch, classes, pixels] = logits.shape().dims();
        let labels = Self::int_reshape(labels, Shape::new([batch, 1, pixels]));
        let largest = Self::float_max_dim(logits.clone(), 1);
        let shifted = Self::float_exp(Self::float_sub(logits.clone(), largest.clone()));
        let normaliser = Self::float_add(Self::float_log(Self::float_sum_dim(shifted, 1)), largest);
        let last = classes as i64 - 1;
        let class = Self::int_clamp(labels.clone(), Scalar::from(0), Scalar::from(last));
        let own = Self::float_gather(1, logits, class.clone());
        let losses = Self::float_sub(normaliser.clone(), own);
        let settings = get_device_settings::<Self>(&losses.device());
        // A label outside of the classes was changed by the clamp.
        let unknown = Self::int_not_equal(labels.clone(), class, settings.bool_dtype);
        let losses = Self::float_mask_fill(losses, unknown, Scalar::from(f32::NAN));
        let losses = Self::float_mask_fill(
            losses,
            is_ignored::<Self>(labels, ignore),
            Scalar::from(0.0),
        );
        let normaliser = Self::float_reshape(normaliser, Shape::new([batch, pixels]));
        (Self::float_sum(losses), normaliser)
    }

    /// The gradient of the logits, from that of the sum and what [`Self::pixel_losses`] returned.
    #[fusion(default)]
    fn pixel_losses_backward(
        logits: FloatTensor<Self>,
        labels: IntTensor<Self>,
        normaliser: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        ignore: i64,
    ) -> FloatTensor<Self> {
        let [batch, classes, pixels] = logits.shape().dims();
        let (device, dtype) = (logits.device(), logits.dtype());
        let settings = get_device_settings::<Self>(&device);
        let of_pixels = Shape::new([batch, 1, pixels]);
        let labels = Self::int_reshape(labels, of_pixels.clone());
        let normaliser = Self::float_reshape(normaliser, of_pixels.clone());
        let probabilities = Self::float_exp(Self::float_sub(logits, normaliser));
        let all = Self::int_arange(0..classes as i64, &device, settings.int_dtype);
        let all = Self::int_reshape(all, Shape::new([1, classes, 1]));
        let is_class = Self::int_equal(labels.clone(), all, settings.bool_dtype);
        let one_hot = Self::bool_into_float(is_class, dtype.into());
        let grad = Self::float_expand(Self::float_reshape(grad, Shape::new([1, 1, 1])), of_pixels);
        let grad =
            Self::float_mask_fill(grad, is_ignored::<Self>(labels, ignore), Scalar::from(0.0));
        Self::float_mul(Self::float_sub(probabilities, one_hot), grad)
    }
}

#[cfg(feature = "cube")]
impl PixelCrossEntropyOps for burn_cubecl::CubeBackend {}

impl<B: PixelCrossEntropyOps, C: CheckpointStrategy> PixelCrossEntropyOps for Autodiff<B, C> {
    fn pixel_losses(
        logits: FloatTensor<Self>,
        labels: IntTensor<Self>,
        ignore: i64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let (node, [logits]) = split([logits]);
        let (sum, normaliser) = B::pixel_losses(logits.clone(), labels.clone(), ignore);
        let state = (logits, labels, normaliser.clone(), ignore);
        let sum = record::<B, C, _, _>(node, sum, state, |saved, grad| {
            let (logits, labels, normaliser, ignore) = saved;
            [B::pixel_losses_backward(
                logits, labels, normaliser, grad, ignore,
            )]
        });
        (sum, Self::from_inner(normaliser))
    }
}

/// Labels in one type.
fn in_i64<B: Backend>(labels: IntTensor<B>) -> IntTensor<B> {
    B::int_cast(labels, IntDType::I64)
}

fn is_ignored<B: Backend>(labels: IntTensor<B>, ignore: i64) -> BoolTensor<B> {
    let dtype = get_device_settings::<B>(&labels.device()).bool_dtype;
    B::int_equal_elem(labels, Scalar::from(ignore), dtype)
}

/// The mean cross-entropy of the pixels, `[1]`, on any device; pixels with the label `ignore` have the loss 0. It is 0 if there are
/// no others. A label that is neither `ignore` nor a class makes the loss NaN. All types are computed in f32, and the loss
/// is f32.
///
/// # Shapes
/// Logits `[batch, classes, height, width]`, labels `[batch, height, width]`.
///
/// # Panics
/// If the logits are empty, or the shapes do not fit.
pub fn pixel_cross_entropy(
    logits: Tensor<4>,
    labels: Tensor<3, Int>,
    ignore: i64,
    average: PixelAverage,
) -> Tensor<1> {
    let [batch, classes, height, width] = logits.dims();
    assert!(
        !logits.dims().contains(&0) && labels.dims() == [batch, height, width],
        "pixel_cross_entropy: logits of shape {:?} do not fit labels of shape {:?}",
        logits.dims(),
        labels.dims()
    );
    let logits = in_type(logits, DType::F32).reshape([batch, classes, height * width]);
    let labels = labels.reshape([batch, height * width]);
    let (sum, _) = Dispatch::pixel_losses(
        logits.into_dispatch(),
        labels.clone().into_dispatch(),
        ignore,
    );
    let sum = Tensor::<1>::from_dispatch(sum);
    match average {
        PixelAverage::All => sum / (batch * height * width) as f64,
        PixelAverage::Valid => {
            let valid = labels.not_equal_elem(ignore).int().sum().float();
            sum / valid.clamp_min(1.0)
        }
    }
}
