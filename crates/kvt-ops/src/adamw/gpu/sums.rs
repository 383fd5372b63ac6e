//! Sums of squares of one tensor and of many.

use burn::backend::{TensorMetadata, cubecl::dtype_to_storage_type};
use burn::tensor::{DType, Shape};
use burn_cubecl::{kernel::into_contiguous, tensor::CubeTensor};
use cubecl::prelude::*;

use super::arg;
use super::kernel::{add_square_sums_kernel, sums_kernel};
use crate::gpu::launch::{address, empty};
use crate::gpu::row_group::RowStrategy;

/// Threads per workgroup in a sum.
const UNITS: u32 = 64;
/// Maximum number of workgroups for the sum of one tensor.
const CUBES: usize = 256;
/// Maximum number of elements summed per thread, unless that takes more than [`CUBES`] workgroups.
const NUMBERS: usize = 64;

/// Bindings of the kernel for many tensors besides the tensors: the old and new partial sums, and the shapes.
const BINDINGS: u32 = 3;

/// [`AdamWOps::square_sum`](crate::adamw::AdamWOps::square_sum).
pub(super) fn square_sum(x: CubeTensor) -> CubeTensor {
    let x = into_contiguous(x);
    let count = x.shape().num_elements();
    let cubes = count.div_ceil(UNITS as usize * NUMBERS).clamp(1, CUBES);
    let dtype = x.dtype;
    if cubes == 1 {
        return sums(x, 1, true, dtype);
    }
    let parts = sums(x, cubes, true, DType::F32);
    sums(parts, 1, false, dtype)
}

/// [`AdamWOps::sum_of_parts`](crate::adamw::AdamWOps::sum_of_parts).
pub(super) fn sum(parts: CubeTensor) -> CubeTensor {
    sums(into_contiguous(parts), 1, false, DType::F32)
}

/// The partial sums with the squares of some tensors added to them, with as many tensors per launch as `bindings` allows.
pub(super) fn add(parts: CubeTensor, tensors: &[CubeTensor], bindings: u32) -> CubeTensor {
    let at_once = bindings.saturating_sub(BINDINGS).max(1) as usize;
    let groups = tensors.chunks(at_once);
    groups.fold(into_contiguous(parts), |parts, tensors| {
        let output = empty(&parts, parts.shape(), DType::F32);
        let all: Vec<_> = tensors.iter().collect();
        let counts = tensors.iter().map(|x| x.shape().num_elements() as u32);
        let (units, strategy) = cube(&parts);
        add_square_sums_kernel::launch(
            &parts.client,
            CubeCount::Static(parts.shape().num_elements() as u32, 1, 1),
            units,
            address(&all),
            arg(&parts),
            tensors.iter().map(arg).collect(),
            arg(&output),
            counts.collect(),
            tensors.len(),
            strategy,
        );
        output
    })
}

/// One sum per workgroup, of the elements or of their squares.
fn sums(x: CubeTensor, cubes: usize, square: bool, dtype: DType) -> CubeTensor {
    let output = empty(&x, Shape::new([cubes]), dtype);
    let client = x.client.clone();
    let [from, to] = [x.dtype, dtype].map(dtype_to_storage_type);
    let (units, strategy) = cube(&x);
    let count = x.shape().num_elements() as u32;
    sums_kernel::launch(
        &client,
        CubeCount::Static(cubes as u32, 1, 1),
        units,
        x.required_address_type(),
        x.into_tensor_arg(),
        output.clone().into_tensor_arg(),
        count,
        square,
        strategy,
        from,
        to,
    );
    output
}

/// The workgroup size on the device of a tensor; the threads of a workgroup form one row group.
fn cube(x: &CubeTensor) -> (CubeDim, RowStrategy) {
    let units = UNITS.min(x.client.properties().hardware.max_units_per_cube);
    // A power of two, as in every row group.
    let units = 1u32 << units.max(1).ilog2();
    let size = units as usize;
    let strategy = RowStrategy::Cube { units: size, size };
    (CubeDim::new_1d(units), strategy)
}
