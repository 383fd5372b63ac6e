//! The operation on every CubeCL runtime: which kernel, and how it is spread over the device.

use std::sync::OnceLock;

use burn::backend::{TensorMetadata, cubecl::dtype_to_storage_type, tensor::FloatTensor};
use burn_cubecl::{
    CubeBackend, kernel::into_contiguous, ops::numeric::empty_device_contiguous_dtype,
    tensor::CubeTensor,
};
use cubecl::features::Plane;
use cubecl::prelude::*;

use super::KnnOps;
use super::kernel::{knn_softmax_backward_kernel, knn_softmax_kernel};

/// Turns of a loop over a row, at most. A software driver (llvmpipe) silently ends all loops of a unit
/// after 65,535 turns together, and a selection goes over its row up to seventy times.
const TURNS: usize = 512;

/// How the rows of a tensor are spread over its device.
struct Launch {
    rows: u32,
    keys: u32,
    /// A plane has a row, or else a unit has.
    plane: bool,
    /// Scores that a unit looks at in one turn of a loop.
    chunk: usize,
    count: CubeCount,
    dim: CubeDim,
}

impl Launch {
    fn new(tensor: &CubeTensor) -> Self {
        let shape = tensor.shape();
        let keys = shape[shape.num_dims() - 1];
        let rows = (shape.num_elements() / keys) as u32;
        let properties = tensor.client.properties();
        let hardware = &properties.hardware;
        let planes = &properties.features.plane;
        let size = hardware.plane_size_max;
        let wanted = asked_for().unwrap_or(planes.contains(Plane::Ops));
        let plane = wanted && size > 1 && hardware.plane_size_min == size;
        let step = if plane { size as usize } else { 1 };
        let (rows_per_cube, dim) = if plane {
            // Planes of a cube go different ways, if the device lets them.
            let alone = !planes.contains(Plane::NonUniformControlFlow);
            let rows = if alone { 1 } else { 4 };
            (rows, CubeDim::new_2d(size, rows))
        } else {
            let units = hardware
                .max_units_per_cube
                .min(hardware.max_cube_dim.0)
                .min(64);
            (units, CubeDim::new_1d(units))
        };
        let cubes = rows.div_ceil(rows_per_cube);
        // x alone may be limited to 65535 cubes; surplus rows end at the first check.
        let x = cubes.min(hardware.max_cube_count.0);
        Self {
            rows,
            keys: keys as u32,
            plane,
            chunk: keys.div_ceil(step * TURNS).next_power_of_two().max(8),
            count: CubeCount::Static(x, cubes.div_ceil(x), 1),
            dim,
        }
    }
}

/// What the environment variable `KVT_PLANES` says: `off` for a driver whose plane operations are
/// wrong, `on` for one that CubeCL does not trust with them.
fn asked_for() -> Option<bool> {
    static ANSWER: OnceLock<Option<bool>> = OnceLock::new();
    *ANSWER.get_or_init(|| match std::env::var("KVT_PLANES").ok()?.as_str() {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    })
}

fn output_like(tensor: &CubeTensor) -> CubeTensor {
    empty_device_contiguous_dtype(
        tensor.client.clone(),
        tensor.device.clone(),
        tensor.shape(),
        tensor.dtype,
    )
}

impl KnnOps for CubeBackend {
    fn knn_softmax(scores: FloatTensor<Self>, k: usize) -> FloatTensor<Self> {
        if scores.shape().num_elements() == 0 {
            return scores;
        }
        let scores = into_contiguous(scores);
        let output = output_like(&scores);
        let launch = Launch::new(&scores);
        let (client, dtype) = (scores.client.clone(), scores.dtype);
        knn_softmax_kernel::launch(
            &client,
            launch.count,
            launch.dim,
            scores.required_address_type(),
            scores.into_tensor_arg(),
            output.clone().into_tensor_arg(),
            launch.rows,
            launch.keys,
            k.min(launch.keys as usize) as u32,
            launch.plane,
            launch.chunk,
            dtype_to_storage_type(dtype),
        );
        output
    }

    fn knn_softmax_backward(
        probabilities: FloatTensor<Self>,
        grad: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        if probabilities.shape().num_elements() == 0 {
            return probabilities;
        }
        let probabilities = into_contiguous(probabilities);
        let grad = into_contiguous(grad);
        let output = output_like(&probabilities);
        let launch = Launch::new(&probabilities);
        let (client, dtype) = (probabilities.client.clone(), probabilities.dtype);
        knn_softmax_backward_kernel::launch(
            &client,
            launch.count,
            launch.dim,
            probabilities.required_address_type(),
            probabilities.into_tensor_arg(),
            grad.into_tensor_arg(),
            output.clone().into_tensor_arg(),
            launch.rows,
            launch.keys,
            launch.plane,
            launch.chunk,
            dtype_to_storage_type(dtype),
        );
        output
    }
}
