//! Works around a Burn bug with non-contiguous convolution gradients on GPUs.
//!
//! Burn 0.22.1 treats the gradient of a convolution's output as contiguous on a CubeCL runtime if each of its images
//! is: `is_spatial_contiguous` in burn-cubecl's `kernel/conv/im2col.rs` ignores the stride of the batch. A slice of a
//! longer tensor is such a gradient, for example the tokens after a class token. If the tuner chose `dgrad_im2col` or
//! `wgrad_im2col`, the gradient of the images or of the weight was silently wrong.

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::{Autodiff, Backend, Dispatch, backend_extension, tensor::FloatTensor};
use burn::tensor::Tensor;

use crate::autodiff::{record, split};

#[cfg(feature = "cube")]
mod gpu;

/// The memory layout of a backend's tensors.
#[backend_extension(Cube: cfg(feature = "cube"), Flex, Capture: cfg(feature = "export"), Autodiff, Fusion: cfg(feature = "cube"))]
pub(crate) trait LayoutOps: Backend {
    /// The same values; contiguous if the backend's convolutions need that.
    #[fusion(dtype = x, shape = x)]
    fn contiguous(x: FloatTensor<Self>) -> FloatTensor<Self> {
        x
    }

    /// The same tensor; its gradient goes through [`Self::contiguous`].
    #[fusion(default)]
    fn contiguous_gradient(x: FloatTensor<Self>) -> FloatTensor<Self> {
        x
    }
}

impl LayoutOps for burn::backend::Flex {}

impl<B: LayoutOps, C: CheckpointStrategy> LayoutOps for Autodiff<B, C> {
    fn contiguous_gradient(x: FloatTensor<Self>) -> FloatTensor<Self> {
        let (node, [x]) = split([x]);
        record::<B, C, _, _>(node, x, (), |(), grad| [B::contiguous(grad)])
    }
}

/// The same tensor, with a contiguous gradient: for the output of Burn's convolutions.
///
/// Works around a Burn bug with non-contiguous convolution gradients on GPUs.
pub fn contiguous_gradient<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    Tensor::from_dispatch(Dispatch::contiguous_gradient(x.into_dispatch()))
}
