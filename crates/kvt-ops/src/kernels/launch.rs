//! How the rows of a tensor are spread over its device.

use std::sync::OnceLock;

use burn::backend::TensorMetadata;
use burn::tensor::{DType, Shape};
use burn_cubecl::{ops::numeric::empty_device_contiguous_dtype, tensor::CubeTensor};
use cubecl::features::Plane;
use cubecl::prelude::*;

use super::team::Sharing;

/// Turns of a loop over a row, at most. A software driver (llvmpipe) silently ends all loops of a unit
/// after 65,535 turns together, and a selection goes over its row up to seventy times.
const TURNS: usize = 512;

/// Units of a cube, but for planes.
const UNITS: u32 = 64;

/// How the rows (last dimension) of a tensor are spread over its device.
pub(crate) struct Launch {
    pub rows: u32,
    pub width: u32,
    pub sharing: Sharing,
    /// Numbers that a unit looks at in one turn of a loop.
    pub chunk: usize,
    pub count: CubeCount,
    pub dim: CubeDim,
}

impl Launch {
    /// For a tensor that is not empty.
    pub(crate) fn new(tensor: &CubeTensor) -> Self {
        let wanted = asked_for().unwrap_or_else(|| {
            let properties = tensor.client.properties();
            if properties.features.plane.contains(Plane::Ops) {
                Wanted::Plane
            } else if properties.identity.physical.is_some() {
                Wanted::Cube
            } else {
                Wanted::Unit
            }
        });
        Self::with(tensor, wanted)
    }

    pub(crate) fn with(tensor: &CubeTensor, wanted: Wanted) -> Self {
        let shape = tensor.shape();
        let width = shape[shape.num_dims() - 1];
        let rows = (shape.num_elements() / width) as u32;
        let properties = tensor.client.properties();
        let hardware = &properties.hardware;
        let plane = hardware.plane_size_max;
        let most = hardware.max_units_per_cube.min(hardware.max_cube_dim.0);
        let units = 1 << most.clamp(1, UNITS).ilog2();
        let (sharing, step, rows_per_cube, dim) = match wanted {
            Wanted::Plane if plane > 1 && hardware.plane_size_min == plane => {
                // Planes of a cube go different ways, if the device lets them.
                let free = properties.features.plane;
                let rows = if free.contains(Plane::NonUniformControlFlow) {
                    4
                } else {
                    1
                };
                (
                    Sharing::Plane,
                    plane as usize,
                    rows,
                    CubeDim::new_2d(plane, rows),
                )
            }
            Wanted::Unit => (Sharing::Unit, 1, units, CubeDim::new_1d(units)),
            Wanted::Plane | Wanted::Cube => {
                let (units, size) = (units as usize, team_size(width).min(units as usize));
                let sharing = Sharing::Cube { units, size };
                let dim = CubeDim::new_1d(units as u32);
                (sharing, size, (units / size) as u32, dim)
            }
        };
        let cubes = rows.div_ceil(rows_per_cube);
        // x alone may be limited to 65535 cubes; surplus cubes find no row.
        let x = cubes.min(hardware.max_cube_count.0);
        Self {
            rows,
            width: width as u32,
            sharing,
            chunk: width.div_ceil(step * TURNS).next_power_of_two().max(8),
            count: CubeCount::Static(x, cubes.div_ceil(x), 1),
            dim,
        }
    }
}

/// Who is to have a row together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Unit,
    /// Where all planes are of one size; else as [`Self::Cube`].
    Plane,
    Cube,
}

/// Units that have a row together: each looks at some numbers of the row, and at what each of the others
/// found, so that there are a few times more numbers than others.
fn team_size(width: usize) -> usize {
    (width.isqrt() / 2).max(1).next_power_of_two()
}

/// What the environment variable `KVT_ROWS` says, for a driver whose plane operations are wrong, or
/// that CubeCL does not trust with them: see docs/guide/devices.md.
pub(super) fn asked_for() -> Option<Wanted> {
    static ANSWER: OnceLock<Option<Wanted>> = OnceLock::new();
    *ANSWER.get_or_init(|| match std::env::var("KVT_ROWS").ok()?.as_str() {
        "unit" => Some(Wanted::Unit),
        "plane" => Some(Wanted::Plane),
        "cube" => Some(Wanted::Cube),
        _ => None,
    })
}

/// A tensor on the same device, of anything.
pub(crate) fn empty(like: &CubeTensor, shape: Shape, dtype: DType) -> CubeTensor {
    empty_device_contiguous_dtype(like.client.clone(), like.device.clone(), shape, dtype)
}

/// The largest address that the kernels form.
pub(crate) fn address(tensors: &[&CubeTensor]) -> AddressType {
    let types = tensors.iter().map(|x| x.required_address_type());
    types.max().unwrap_or_default()
}
