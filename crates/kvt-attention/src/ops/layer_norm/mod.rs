//! Layer normalisation, forward and backward in one pass over each row on the CPU.
//!
//! Burn composes it of nine operations under autodiff, each with its own gradient and, on the CPU,
//! each a pass over one thread.

use burn::backend::{
    Backend, Dispatch, Scalar, TensorMetadata, backend_extension, tensor::FloatTensor,
};
use burn::nn::LayerNorm;
use burn::tensor::{DType, Shape, Tensor};

mod autodiff;
mod flex;

#[cfg(feature = "cube")]
impl LayerNormOps for burn_cubecl::CubeBackend {}

/// What a backend provides for layer normalisation. The defaults are composed of Burn's operations.
#[backend_extension(Cube: cfg(feature = "cube"), Flex, Autodiff, Fusion: cfg(feature = "cube"))]
pub trait LayerNormOps: Backend {
    /// `(x - mean) / sqrt(variance + epsilon) * gamma + beta` over the last dimension. Returns the
    /// output, and mean and inverse standard deviation of the rows, `[.., 1]` each.
    #[fusion(default)]
    fn normalize(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        epsilon: f64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let rank = x.rank();
        let mean = Self::float_mean_dim(x.clone(), rank - 1);
        let centered = Self::float_sub(x, mean.clone());
        let square = Self::float_mul(centered.clone(), centered.clone());
        let variance = Self::float_mean_dim(square, rank - 1);
        let deviation = Self::float_sqrt(Self::float_add_scalar(variance, Scalar::from(epsilon)));
        let inverse = Self::float_recip(deviation);
        let normal = Self::float_mul(centered, inverse.clone());
        let out = Self::float_mul(normal, as_row::<Self>(gamma, rank));
        (
            Self::float_add(out, as_row::<Self>(beta, rank)),
            mean,
            inverse,
        )
    }

    /// The gradients of x, gamma and beta.
    #[fusion(default)]
    fn normalize_backward(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        mean: FloatTensor<Self>,
        inverse: FloatTensor<Self>,
        grad: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let rank = x.rank();
        let width = x.shape()[rank - 1];
        let normal = Self::float_mul(Self::float_sub(x, mean), inverse.clone());
        let over_rows = |tensor: FloatTensor<Self>| {
            let rows = tensor.shape().num_elements() / width;
            let tensor = Self::float_reshape(tensor, Shape::new([rows, width]));
            Self::float_reshape(Self::float_sum_dim(tensor, 0), Shape::new([width]))
        };
        let gamma_grad = over_rows(Self::float_mul(grad.clone(), normal.clone()));
        let beta_grad = over_rows(grad.clone());
        let grad = Self::float_mul(grad, as_row::<Self>(gamma, rank));
        let shift = Self::float_mean_dim(grad.clone(), rank - 1);
        let along = Self::float_mul(grad.clone(), normal.clone());
        let stretch = Self::float_mul(normal, Self::float_mean_dim(along, rank - 1));
        let x_grad = Self::float_sub(Self::float_sub(grad, shift), stretch);
        (Self::float_mul(x_grad, inverse), gamma_grad, beta_grad)
    }
}

/// `[width]` to `[1, .., 1, width]`.
fn as_row<B: Backend>(tensor: FloatTensor<B>, rank: usize) -> FloatTensor<B> {
    let mut shape = vec![1; rank];
    shape[rank - 1] = tensor.shape()[0];
    B::float_reshape(tensor, Shape::from(shape))
}

/// A layer norm over the last dimension on any device. `epsilon` is the one that the layer was made
/// with, which Burn hides; a layer without a shift is Burn's own.
///
/// # Shapes
/// `[.., width]` to the same.
pub fn layer_norm<const D: usize>(layer: &LayerNorm, x: Tensor<D>, epsilon: f64) -> Tensor<D> {
    let Some(beta) = &layer.beta else {
        return layer.forward(x);
    };
    let (gamma, beta) = (layer.gamma.val(), beta.val());
    // Burn says what is wrong with a shape that does not fit, and sums half types in f32.
    if x.dims()[D - 1] != gamma.dims()[0] || x.dtype() != DType::F32 {
        return layer.forward(x);
    }
    let (gamma, beta) = (gamma.into_dispatch(), beta.into_dispatch());
    Tensor::from_dispatch(Dispatch::normalize(x.into_dispatch(), gamma, beta, epsilon).0)
}
