//! Gradients that lie in memory without gaps.
//!
//! Burn 0.22.1 takes the gradient of a convolution's output for contiguous on a CubeCL runtime where
//! only its images are (`is_spatial_contiguous` in burn-cubecl's `kernel/conv/im2col.rs` does not look
//! at the stride of the batch). The gradient of tokens that were put behind a class token is such a
//! tensor, a slice of a longer one: if the tuner chose `dgrad_im2col` or `wgrad_im2col`, the gradient of
//! the images or of the weight was silently wrong.

use burn::backend::{Backend, Dispatch, backend_extension, tensor::FloatTensor};
use burn::tensor::Tensor;

mod autodiff;
#[cfg(feature = "cube")]
mod cube;

impl LayoutOps for burn::backend::Flex {}

/// What a backend knows of the layout of its tensors.
#[backend_extension(Cube: cfg(feature = "cube"), Flex, Autodiff, Fusion: cfg(feature = "cube"))]
pub trait LayoutOps: Backend {
    /// The same numbers, without gaps where the backend's convolutions need that.
    #[fusion(dtype = x, shape = x)]
    fn contiguous(x: FloatTensor<Self>) -> FloatTensor<Self> {
        x
    }

    /// The same tensor; its gradient is [`Self::contiguous`].
    #[fusion(default)]
    fn contiguous_gradient(x: FloatTensor<Self>) -> FloatTensor<Self> {
        x
    }
}

/// The same tensor, whose gradient has no gaps in memory: to be put behind a convolution of Burn's.
pub fn contiguous_gradient<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    Tensor::from_dispatch(Dispatch::contiguous_gradient(x.into_dispatch()))
}
