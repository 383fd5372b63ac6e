//! Layer normalisation with kernels of its own, forward and backward.
//!
//! Burn composes it of nine operations under autodiff, each with its own gradient: on the CPU each is
//! a pass over one thread, and on a GPU a dozen kernels are left of them after fusion, where four do.

#[cfg(feature = "cube")]
use burn::backend::fusion::custom::TensorSpec;
use burn::backend::{Backend, Dispatch, TensorMetadata, backend_extension, tensor::FloatTensor};
use burn::nn::LayerNorm;
use burn::tensor::{DType, Shape, Tensor};

mod autodiff;
#[cfg(feature = "cube")]
mod cube;
mod flex;
#[cfg(feature = "cube")]
mod kernel;

/// What a backend provides for layer normalisation, of tensors that are not empty.
#[backend_extension(Cube: cfg(feature = "cube"), Flex, Autodiff, Fusion: cfg(feature = "cube"))]
pub trait LayerNormOps: Backend {
    /// `(x - mean) / sqrt(variance + epsilon) * gamma + beta` over the last dimension. Returns the
    /// output, and mean and inverse standard deviation of the rows in f32, `[.., 1]` each.
    #[fusion(meta = |x, _gamma, _beta, _epsilon| (x.clone(), of_a_row(x), of_a_row(x)))]
    fn normalize(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        epsilon: f64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);

    /// The gradients of x, gamma and beta. This body is composed of Burn's operations, so that in f32
    /// it has a gradient in its turn.
    #[fusion(meta = |x, gamma, _mean, _inverse, _grad| (x.clone(), gamma.clone(), gamma.clone()))]
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
        let mut row = vec![1; rank];
        row[rank - 1] = width;
        let grad = Self::float_mul(grad, Self::float_reshape(gamma, Shape::from(row)));
        let shift = Self::float_mean_dim(grad.clone(), rank - 1);
        let along = Self::float_mul(grad.clone(), normal.clone());
        let stretch = Self::float_mul(normal, Self::float_mean_dim(along, rank - 1));
        let x_grad = Self::float_sub(Self::float_sub(grad, shift), stretch);
        (Self::float_mul(x_grad, inverse), gamma_grad, beta_grad)
    }
}

/// A number of each row.
#[cfg(feature = "cube")]
fn of_a_row(x: &TensorSpec) -> TensorSpec {
    TensorSpec::new(one_each(&x.shape), DType::F32)
}

/// The shape with one value per row.
fn one_each(shape: &Shape) -> Shape {
    let mut shape = shape.clone();
    let last = shape.num_dims() - 1;
    shape[last] = 1;
    shape
}

/// A layer norm over the last dimension on any device. `epsilon` is the one that the layer was made
/// with, which Burn hides; a layer without a shift is Burn's own. Half types are summed in f32.
///
/// # Shapes
/// `[.., width]` to the same.
pub fn layer_norm<const D: usize>(layer: &LayerNorm, x: Tensor<D>, epsilon: f64) -> Tensor<D> {
    let Some(beta) = &layer.beta else {
        return layer.forward(x);
    };
    let (gamma, beta) = (layer.gamma.val(), beta.val());
    let ours = matches!(x.dtype(), DType::F32 | DType::F16 | DType::BF16)
        && [&gamma, &beta].map(|p| (p.dtype(), p.dims()[0])) == [(x.dtype(), x.dims()[D - 1]); 2]
        && x.shape().num_elements() > 0;
    if !ours {
        // Burn says what is wrong with a shape that does not fit.
        return layer.forward(x);
    }
    let (gamma, beta) = (gamma.into_dispatch(), beta.into_dispatch());
    Tensor::from_dispatch(Dispatch::normalize(x.into_dispatch(), gamma, beta, epsilon).0)
}
