//! Unfold and fold on the CubeCL runtimes: kernel launches.

use burn::backend::{TensorMetadata, cubecl::dtype_to_storage_type, tensor::FloatTensor};
use burn_cubecl::{CubeBackend, kernel::into_contiguous, tensor::CubeTensor};
use cubecl::prelude::*;

use self::kernel::{WindowsLaunch, fold_kernel, unfold_kernel};
use super::{Unfold, UnfoldOps};
use crate::gpu::launch::{address, empty};

mod kernel;

/// Threads per workgroup.
const UNITS: u32 = 256;

impl UnfoldOps for CubeBackend {
    fn unfold_windows(x: FloatTensor<Self>, settings: Unfold) -> FloatTensor<Self> {
        let [_, _, height, width] = x.shape().dims();
        let x = into_contiguous(x);
        let out = empty(&x, settings.unfolded(&x.shape()), x.dtype);
        let Some((count, cubes, dim)) = one_unit_per_number(&out) else {
            return out;
        };
        let (client, dtype, address) = (x.client.clone(), x.dtype, address(&[&x, &out]));
        unfold_kernel::launch(
            &client,
            cubes,
            dim,
            address,
            x.into_tensor_arg(),
            out.clone().into_tensor_arg(),
            settings.launch([height, width]),
            count,
            dtype_to_storage_type(dtype),
        );
        out
    }

    fn fold_windows(x: FloatTensor<Self>, size: [usize; 2], settings: Unfold) -> FloatTensor<Self> {
        let x = into_contiguous(x);
        let out = empty(&x, settings.folded(&x.shape(), size), x.dtype);
        let Some((count, cubes, dim)) = one_unit_per_number(&out) else {
            return out;
        };
        let (client, dtype, address) = (x.client.clone(), x.dtype, address(&[&x, &out]));
        fold_kernel::launch(
            &client,
            cubes,
            dim,
            address,
            x.into_tensor_arg(),
            out.clone().into_tensor_arg(),
            settings.launch(size),
            count,
            dtype_to_storage_type(dtype),
        );
        out
    }
}

impl Unfold {
    fn launch(self, size: [usize; 2]) -> WindowsLaunch {
        let [rows, columns] = self.positions(size);
        let [height, width] = size;
        let [height, width, rows, columns, kernel, stride, padding] = [
            height,
            width,
            rows,
            columns,
            self.kernel,
            self.stride,
            self.padding,
        ]
        .map(|number| number as u32);
        WindowsLaunch::new(height, width, rows, columns, kernel, stride, padding)
    }
}

/// The number of elements of a tensor, and workgroups with one thread for each; `None` if it is empty.
fn one_unit_per_number(out: &CubeTensor) -> Option<(u32, CubeCount, CubeDim)> {
    let count = out.shape().num_elements() as u32;
    let hardware = &out.client.properties().hardware;
    let units = UNITS.min(hardware.max_units_per_cube);
    let cubes = count.div_ceil(units);
    let x = cubes.min(hardware.max_cube_count.0);
    let count_of = |x: u32| CubeCount::Static(x, cubes.div_ceil(x), 1);
    (count > 0).then(|| (count, count_of(x), CubeDim::new_1d(units)))
}
