//! Tensors in the order of their shape: a faster copy on CPUs, and a work-around for a Burn bug with non-contiguous convolution
//! gradients on GPUs.
//!
//! Burn 0.22.1 treats the gradient of a convolution's output as contiguous on a CubeCL runtime if each of its images
//! is: `is_spatial_contiguous` in burn-cubecl's `kernel/conv/im2col.rs` ignores the stride of the batch. A slice of a
//! longer tensor is such a gradient, for example the tokens after a class token. If the tuner chose `dgrad_im2col` or
//! `wgrad_im2col`, the gradient of the images or of the weight was silently wrong.

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::{Autodiff, Backend, Dispatch, backend_extension, tensor::FloatTensor};
use burn::tensor::{Device, Tensor};

use crate::autodiff::{record, split};

pub(crate) mod cpu;

/// The memory layout of a backend's tensors.
#[backend_extension(Cube: cfg(feature = "cube"), Flex, Capture: cfg(feature = "export"), Autodiff, Fusion: cfg(feature = "cube"))]
pub(crate) trait LayoutOps: Backend {
    /// The same values in the order of the shape, where the backend gains from it.
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

#[cfg(feature = "cube")]
impl LayoutOps for burn_cubecl::CubeBackend {
    fn contiguous(x: FloatTensor<Self>) -> FloatTensor<Self> {
        burn_cubecl::kernel::into_contiguous(x)
    }
}

impl<B: LayoutOps, C: CheckpointStrategy> LayoutOps for Autodiff<B, C> {
    fn contiguous(x: FloatTensor<Self>) -> FloatTensor<Self> {
        let (node, [x]) = split([x]);
        record::<B, C, _, _>(node, B::contiguous(x), (), |(), grad| [grad])
    }

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

/// A tensor whose dimensions are reordered: `x.permute(axes)`. On CPUs its gradient is copied on all threads, where Burn uses one.
///
/// # Panics
/// As Burn's operation.
pub fn permute<const D: usize>(x: Tensor<D>, axes: [isize; D]) -> Tensor<D> {
    let is_cpu = x.device() == Device::flex();
    let x = if is_cpu { contiguous_gradient(x) } else { x };
    x.permute(axes)
}

/// A tensor whose dimensions are reordered and then joined or divided: `x.permute(axes).reshape(shape)`. On CPUs it and its gradient
/// are copied on all threads, where Burn uses one.
///
/// # Panics
/// As Burn's two operations.
pub fn permute_reshape<const D: usize, const E: usize>(
    x: Tensor<D>,
    axes: [isize; D],
    shape: [usize; E],
) -> Tensor<E> {
    let view = permute(x, axes);
    let view = if view.device() == Device::flex() {
        Tensor::from_dispatch(Dispatch::contiguous(view.into_dispatch()))
    } else {
        view
    };
    view.reshape(shape)
}
