//! Unfold and fold on the CubeCL runtimes: kernel launches.

use burn::backend::{TensorMetadata, cubecl::dtype_to_storage_type, tensor::FloatTensor};
use burn_cubecl::{CubeBackend, kernel::into_contiguous};

use self::kernel::{WindowsLaunch, fold_kernel, unfold_kernel};
use super::UnfoldOps;
use crate::gpu::launch::{address, empty, one_unit_per_number};
use crate::window::Window;

mod kernel;

impl UnfoldOps for CubeBackend {
    fn unfold_windows(x: FloatTensor<Self>, settings: Window) -> FloatTensor<Self> {
        let [_, _, height, width] = x.shape().dims();
        let x = into_contiguous(x);
        let out = empty(&x, settings.unfolded(&x.shape()), x.dtype);
        let count = out.shape().num_elements() as u32;
        if count == 0 {
            return out;
        }
        let (cubes, dim) = one_unit_per_number(&out, count);
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

    fn fold_windows(x: FloatTensor<Self>, size: [usize; 2], settings: Window) -> FloatTensor<Self> {
        let x = into_contiguous(x);
        let out = empty(&x, settings.folded(&x.shape(), size), x.dtype);
        let count = out.shape().num_elements() as u32;
        if count == 0 {
            return out;
        }
        let (cubes, dim) = one_unit_per_number(&out, count);
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

impl Window {
    fn launch(self, [height, width]: [usize; 2]) -> WindowsLaunch {
        let [rows, columns] = self.positions([height, width]);
        WindowsLaunch::new(
            height as u32,
            width as u32,
            rows as u32,
            columns as u32,
            self.kernel as u32,
            self.stride as u32,
            self.padding as u32,
        )
    }
}
