//! Launches of row-wise kernels.

use std::sync::OnceLock;

use burn::backend::TensorMetadata;
use burn::tensor::{DType, Shape};
use burn_cubecl::{ops::numeric::empty_device_contiguous_dtype, tensor::CubeTensor};
use cubecl::features::Plane;
use cubecl::prelude::*;

use super::row_group::RowStrategy;

/// Maximum number of iterations of a loop over a row. A software driver (llvmpipe) silently ends all loops of a thread
/// after 65,535 iterations in total, and a selection reads its row up to seventy times.
const ITERATIONS: usize = 512;

/// Numbers of a row that a thread keeps in registers: as many as it reads or slightly more, so that rows of many lengths share a few
/// kernels. Subgroups of 32 threads hold at most 1,024 keys.
const HELD: [usize; 5] = [4, 8, 16, 24, 32];

/// Threads per workgroup, unless rows are split by subgroup.
const UNITS: u32 = 64;

/// How a kernel covers the rows (last dimension) of a tensor.
pub(crate) struct Launch {
    pub rows: u32,
    pub width: u32,
    pub strategy: RowStrategy,
    /// Numbers that a thread reads per iteration.
    pub chunk: usize,
    /// Numbers of a row that a thread keeps in registers if all that it reads fit; otherwise 0.
    pub held: usize,
    pub count: CubeCount,
    pub dim: CubeDim,
}

/// A [`RowStrategy`] before its sizes are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StrategyKind {
    Unit,
    /// On a device with subgroups of different sizes, [`Self::Cube`] runs instead.
    Plane,
    Cube,
}

impl Launch {
    /// For a non-empty tensor, with the fastest strategy of its device.
    pub(crate) fn new(tensor: &CubeTensor) -> Self {
        let kind = strategy_from_env().unwrap_or_else(|| {
            let properties = tensor.client.properties();
            if properties.features.plane.contains(Plane::Ops) {
                StrategyKind::Plane
            } else if properties.identity.physical.is_some() {
                StrategyKind::Cube
            } else {
                StrategyKind::Unit
            }
        });
        Self::with(tensor, kind)
    }

    /// For a non-empty tensor.
    pub(crate) fn with(tensor: &CubeTensor, kind: StrategyKind) -> Self {
        let shape = tensor.shape();
        let width = shape[shape.num_dims() - 1];
        let rows = (shape.num_elements() / width) as u32;
        let properties = tensor.client.properties();
        let hardware = &properties.hardware;
        let plane = hardware.plane_size_max;
        let most = hardware.max_units_per_cube.min(hardware.max_cube_dim.0);
        let units = 1 << most.clamp(1, UNITS).ilog2();
        let (strategy, step, rows_per_cube, dim) = match kind {
            StrategyKind::Plane if plane > 1 && hardware.plane_size_min == plane => {
                // The subgroups of a workgroup take different branches, if the device supports it.
                let free = properties.features.plane;
                let rows = if free.contains(Plane::NonUniformControlFlow) {
                    4
                } else {
                    1
                };
                let dim = CubeDim::new_2d(plane, rows);
                (RowStrategy::Plane, plane as usize, rows, dim)
            }
            StrategyKind::Unit => (RowStrategy::Unit, 1, units, CubeDim::new_1d(units)),
            StrategyKind::Plane | StrategyKind::Cube => {
                let (units, size) = (units as usize, group_size(width).min(units as usize));
                let strategy = RowStrategy::Cube { units, size };
                let dim = CubeDim::new_1d(units as u32);
                (strategy, size, (units / size) as u32, dim)
            }
        };
        Self {
            rows,
            width: width as u32,
            strategy,
            held: held(width.div_ceil(step)),
            chunk: width.div_ceil(step * ITERATIONS).next_power_of_two().max(8),
            count: cube_count(tensor, rows.div_ceil(rows_per_cube)),
            dim,
        }
    }
}

/// Registers for `numbers` numbers; 0 if they are too many.
fn held(numbers: usize) -> usize {
    let fits = HELD.into_iter().find(|held| numbers <= *held);
    fits.unwrap_or(0)
}

/// Threads per row group in shared memory. Each reads some numbers of the row, and the result of every other thread: a
/// few times more numbers than results.
fn group_size(width: usize) -> usize {
    (width.isqrt() / 2).max(1).next_power_of_two()
}

/// The strategy in the environment variable `KVT_ROWS`: for drivers with broken subgroup operations, and for tests. See
/// docs/guide/devices.md.
pub(super) fn strategy_from_env() -> Option<StrategyKind> {
    static KIND: OnceLock<Option<StrategyKind>> = OnceLock::new();
    *KIND.get_or_init(|| match std::env::var("KVT_ROWS").ok()?.as_str() {
        "unit" => Some(StrategyKind::Unit),
        "plane" => Some(StrategyKind::Plane),
        "cube" => Some(StrategyKind::Cube),
        _ => None,
    })
}

/// Workgroups and their size on the device of a tensor, with one thread for each of `count` numbers.
pub(crate) fn one_unit_per_number(x: &CubeTensor, count: u32) -> (CubeCount, CubeDim) {
    /// Threads per workgroup.
    const UNITS: u32 = 256;
    let units = UNITS.min(x.client.properties().hardware.max_units_per_cube);
    let count = cube_count(x, count.div_ceil(units).max(1));
    (count, CubeDim::new_1d(units))
}

/// `cubes` workgroups, at least 1, on the device of a tensor. One dimension can be limited to 65,535, so they can be a few more: the
/// surplus finds nothing to do.
pub(crate) fn cube_count(x: &CubeTensor, cubes: u32) -> CubeCount {
    let most = x.client.properties().hardware.max_cube_count.0;
    let in_x = cubes.min(most);
    CubeCount::Static(in_x, cubes.div_ceil(in_x), 1)
}

/// An uninitialised tensor on the same device.
pub(crate) fn empty(like: &CubeTensor, shape: Shape, dtype: DType) -> CubeTensor {
    empty_device_contiguous_dtype(like.client.clone(), like.device.clone(), shape, dtype)
}

/// The address type that can address every element of every tensor.
pub(crate) fn address(tensors: &[&CubeTensor]) -> AddressType {
    let types = tensors.iter().map(|x| x.required_address_type());
    types.max().unwrap_or_default()
}
