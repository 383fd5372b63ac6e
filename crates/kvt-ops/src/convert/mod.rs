//! Casts between float types. On the CPU, casts between f32 and bf16 run on all threads; other casts are Burn's.

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::{
    Autodiff, Backend, Dispatch, TensorMetadata, backend_extension, tensor::FloatTensor,
};
use burn::tensor::{DType, FloatDType, Tensor};

use crate::autodiff::{record, split};
use crate::cast::cast;

mod cpu;

/// Casts on a backend; the default implementation is Burn's.
#[backend_extension(Cube: cfg(feature = "cube"), Flex, Capture: cfg(feature = "export"), Autodiff, Fusion: cfg(feature = "cube"))]
pub(crate) trait ConvertOps: Backend {
    /// Casts to another float type.
    #[fusion(default)]
    fn converted(x: FloatTensor<Self>, dtype: FloatDType) -> FloatTensor<Self> {
        Self::float_cast(x, dtype)
    }
}

#[cfg(feature = "cube")]
impl ConvertOps for burn_cubecl::CubeBackend {}

impl<B: ConvertOps, C: CheckpointStrategy> ConvertOps for Autodiff<B, C> {
    fn converted(x: FloatTensor<Self>, dtype: FloatDType) -> FloatTensor<Self> {
        let (node, [x]) = split([x]);
        let own = FloatDType::from(x.dtype());
        let out = B::converted(x, dtype);
        record::<B, C, _, _>(node, out, own, |own, grad| [B::converted(grad, own)])
    }
}

/// Casts to a float type; returns the same tensor if it already has that type. The gradient has the type of `x`.
pub fn in_type<const D: usize>(x: Tensor<D>, dtype: DType) -> Tensor<D> {
    Tensor::from_dispatch(cast::<Dispatch>(x.into_dispatch(), dtype))
}
