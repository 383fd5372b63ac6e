//! Unfold and fold on GPUs, the CubeCL runtimes: launches of the kernel in `gpu/kernel.rs`.

use burn::backend::{TensorMetadata, cubecl::dtype_to_storage_type, tensor::FloatTensor};
use burn::tensor::Shape;
use burn_cubecl::{CubeBackend, kernel::into_contiguous, tensor::CubeTensor};

use self::kernel::{WindowsLaunch, windows_kernel};
use super::UnfoldOps;
use crate::gpu::launch::{address, empty, one_unit_per_number};
use crate::window::Window;

mod kernel;

impl UnfoldOps for CubeBackend {
    fn unfold_windows(x: FloatTensor<Self>, settings: Window) -> FloatTensor<Self> {
        let [_, _, height, width] = x.shape().dims();
        let shape = settings.unfolded(&x.shape());
        launched(x, shape, settings.launch([height, width]), false)
    }

    fn fold_windows(x: FloatTensor<Self>, size: [usize; 2], settings: Window) -> FloatTensor<Self> {
        let shape = settings.folded(&x.shape(), size);
        launched(x, shape, settings.launch(size), true)
    }
}

/// What the kernel makes of x, of this shape: unfolded, or, with `fold`, folded.
fn launched(x: CubeTensor, shape: Shape, windows: WindowsLaunch, fold: bool) -> CubeTensor {
    let x = into_contiguous(x);
    let out = empty(&x, shape, x.dtype);
    let count = out.shape().num_elements() as u32;
    if count == 0 {
        return out;
    }
    let (cubes, dim) = one_unit_per_number(&out, count);
    let (client, dtype, address) = (x.client.clone(), x.dtype, address(&[&x, &out]));
    windows_kernel::launch(
        &client,
        cubes,
        dim,
        address,
        x.into_tensor_arg(),
        out.clone().into_tensor_arg(),
        windows,
        count,
        fold,
        dtype_to_storage_type(dtype),
    );
    out
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
