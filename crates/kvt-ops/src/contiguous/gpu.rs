//! The contiguous layout on the CubeCL runtimes: copies tensors that have gaps.

use burn::backend::tensor::FloatTensor;
use burn_cubecl::{CubeBackend, kernel::into_contiguous};

use super::LayoutOps;

impl LayoutOps for CubeBackend {
    fn contiguous(x: FloatTensor<Self>) -> FloatTensor<Self> {
        into_contiguous(x)
    }
}
