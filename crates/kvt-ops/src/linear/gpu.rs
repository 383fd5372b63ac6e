//! Linear layers on the CubeCL runtimes: Burn's product, and one launch for all that follows it.

use burn::backend::{TensorMetadata, ops::ModuleOps, tensor::FloatTensor};
use burn::tensor::DType;
use burn_cubecl::{CubeBackend, tensor::CubeTensor};

use super::{LinearOps, add_branch, burn_forward};
use crate::cast::cast;
use crate::residual::{Added, ResidualOps, join};

impl LinearOps for CubeBackend {
    fn affine(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        if !all_known([&x, &weight, &bias]) {
            return burn_forward::<Self>(x, weight, bias);
        }
        let dtype = x.dtype();
        let bias = Some(bias);
        join(
            product(x, weight),
            Added {
                bias,
                ..Added::default()
            },
            dtype,
        )
    }

    fn affine_add(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        residual: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        if !all_known([&x, &weight, &bias, &residual]) {
            return add_branch::<Self>(residual, Self::affine(x, weight, bias));
        }
        let dtype = residual.dtype();
        let added = Added {
            bias: Some(bias),
            residual: Some(residual),
            scale: None,
        };
        join(product(x, weight), added, dtype)
    }

    fn affine_add_scaled(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        residual: FloatTensor<Self>,
        scale: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let known = all_known([&x, &weight, &bias, &residual]);
        if !known || scale.dtype() != DType::F32 {
            return Self::add_scaled(residual, Self::affine(x, weight, bias), scale);
        }
        let dtype = residual.dtype();
        let added = Added {
            bias: Some(bias),
            scale: Some(scale),
            residual: Some(residual),
        };
        join(product(x, weight), added, dtype)
    }
}

/// Whether all are of types that the kernel computes with.
fn all_known<const N: usize>(tensors: [&CubeTensor; N]) -> bool {
    let types = tensors.map(TensorMetadata::dtype);
    let known = |dtype: &DType| matches!(dtype, DType::F32 | DType::F16 | DType::BF16);
    types.iter().all(known)
}

/// `x W` in the type of x.
fn product(x: CubeTensor, weight: CubeTensor) -> CubeTensor {
    let weight = cast::<CubeBackend>(weight, x.dtype());
    CubeBackend::linear(x, weight, None)
}
