//! Residual streams on the CubeCL runtimes: one launch each.

use burn::backend::{TensorMetadata, cubecl::dtype_to_storage_type, tensor::FloatTensor};
use burn::tensor::{DType, FloatDType};
use burn_cubecl::{CubeBackend, kernel::into_contiguous, tensor::CubeTensor};

use super::ResidualOps;
use super::kernel::join_kernel;
use crate::gpu::launch::{address, empty, one_unit_each};

impl ResidualOps for CubeBackend {
    fn add_scaled(
        residual: FloatTensor<Self>,
        branch: FloatTensor<Self>,
        scale: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        if [&residual, &scale].map(TensorMetadata::dtype) != [DType::F32; 2] {
            return super::add_scaled::<Self>(residual, branch, scale);
        }
        let added = Added {
            scale: Some(scale),
            residual: Some(residual),
            ..Added::default()
        };
        join(branch, added, DType::F32)
    }

    fn scaled(
        x: FloatTensor<Self>,
        scale: FloatTensor<Self>,
        dtype: FloatDType,
    ) -> FloatTensor<Self> {
        if x.dtype() != DType::F32 || scale.dtype() != DType::F32 || dtype == FloatDType::F64 {
            return super::scaled::<Self>(x, scale, dtype);
        }
        let scale = Some(scale);
        join(
            x,
            Added {
                scale,
                ..Added::default()
            },
            dtype.into(),
        )
    }
}

/// What is done to the values of a branch, in this order.
#[derive(Default)]
pub(crate) struct Added {
    /// Added to each row, `[width]`.
    pub bias: Option<CubeTensor>,
    /// What a sample is multiplied by, `[batch]` in f32.
    pub scale: Option<CubeTensor>,
    /// What is added, of the shape of the branch and the type of the output.
    pub residual: Option<CubeTensor>,
}

/// `r + s (x + b)` of x `[batch, .., width]` in a type of at most 32 bits.
pub(crate) fn join(x: CubeTensor, added: Added, dtype: DType) -> CubeTensor {
    let x = into_contiguous(x);
    let out = empty(&x, x.shape(), dtype);
    let shape = x.shape();
    let count = shape.num_elements();
    if count == 0 {
        return out;
    }
    let Added {
        bias,
        scale,
        residual,
    } = added;
    let [bias, scale, residual] = [bias, scale, residual].map(|part| part.map(into_contiguous));
    let samples = scale
        .as_ref()
        .map_or(1, |scale| scale.shape().num_elements());
    let with = (bias.is_some(), scale.is_some(), residual.is_some());
    let of_bias = bias.as_ref().map_or(x.dtype, |bias| bias.dtype);
    let sequence = |part: Option<CubeTensor>| part.into_iter().map(CubeTensor::into_tensor_arg);
    let (client, of_x, count) = (x.client.clone(), x.dtype, count as u32);
    let (cubes, units) = one_unit_each(&x, count);
    join_kernel::launch(
        &client,
        cubes,
        units,
        address(&[&x, &out]),
        x.into_tensor_arg(),
        sequence(bias).collect(),
        sequence(scale).collect(),
        sequence(residual).collect(),
        out.clone().into_tensor_arg(),
        count,
        shape[shape.num_dims() - 1] as u32,
        count / samples as u32,
        with,
        dtype_to_storage_type(of_x),
        dtype_to_storage_type(of_bias),
        dtype_to_storage_type(dtype),
    );
    out
}
