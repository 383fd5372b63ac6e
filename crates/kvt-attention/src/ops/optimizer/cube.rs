//! Optimizers on every CubeCL runtime: the kernels, launched.

use burn::backend::{TensorMetadata, cubecl::dtype_to_storage_type, tensor::FloatTensor};
use burn::tensor::{DType, Shape};
use burn_cubecl::{CubeBackend, kernel::into_contiguous, tensor::CubeTensor};
use cubecl::prelude::*;

use super::kernel::{StepLaunch, adamw_kernel, sums_kernel};
use super::{AdamWStep, OptimizerOps};
use crate::ops::kernels::launch::{address, empty};
use crate::ops::kernels::team::Sharing;

/// Units of a cube.
const UNITS: u32 = 256;

/// Units of a cube that makes a sum, cubes at most, and numbers for a unit before there is another cube.
const SUM: usize = 64;
const CUBES: usize = 256;
const NUMBERS: usize = 64;

impl OptimizerOps for CubeBackend {
    fn square_sum(x: FloatTensor<Self>) -> FloatTensor<Self> {
        let x = into_contiguous(x);
        let count = x.shape().num_elements();
        let cubes = count.div_ceil(SUM * NUMBERS).clamp(1, CUBES);
        let dtype = x.dtype;
        if cubes == 1 {
            return sums(x, 1, true, dtype);
        }
        let parts = sums(x, cubes, true, DType::F32);
        sums(parts, 1, false, dtype)
    }

    fn adamw(
        weight: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        first: FloatTensor<Self>,
        second: FloatTensor<Self>,
        step: AdamWStep,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let inputs = [weight, grad, first, second].map(into_contiguous);
        let [weight, ..] = &inputs;
        let count = weight.shape().num_elements() as u32;
        if count == 0 {
            let [weight, _, first, second] = inputs;
            return (weight, first, second);
        }
        let outputs = [0, 1, 2].map(|_| empty(weight, weight.shape(), weight.dtype));
        let (client, dtype) = (weight.client.clone(), weight.dtype);
        let hardware = &client.properties().hardware;
        let units = UNITS.min(hardware.max_units_per_cube);
        let cubes = count.div_ceil(units);
        let x = cubes.min(hardware.max_cube_count.0);
        let (beta1, beta2) = step.betas;
        let address = address(&[weight]);
        let [weight, grad, first, second] = inputs.map(|x| x.into_tensor_arg());
        let [a, b, c] = outputs.clone().map(|x| x.into_tensor_arg());
        adamw_kernel::launch(
            &client,
            CubeCount::Static(x, cubes.div_ceil(x), 1),
            CubeDim::new_1d(units),
            address,
            weight,
            grad,
            first,
            second,
            a,
            b,
            c,
            StepLaunch::new(
                step.factor as f32,
                step.decay as f32,
                beta1 as f32,
                (1.0 - beta1) as f32,
                beta2 as f32,
                (1.0 - beta2) as f32,
                step.eps as f32,
                step.size as f32,
                step.correction as f32,
            ),
            count,
            dtype_to_storage_type(dtype),
        );
        let [weight, first, second] = outputs;
        (weight, first, second)
    }
}

/// As many sums of the numbers, or of their squares, as there are cubes.
fn sums(x: CubeTensor, cubes: usize, square: bool, dtype: DType) -> CubeTensor {
    let output = empty(&x, Shape::new([cubes]), dtype);
    let client = x.client.clone();
    let [from, to] = [x.dtype, dtype].map(dtype_to_storage_type);
    let units = SUM.min(client.properties().hardware.max_units_per_cube as usize);
    // A power of two, as teams are.
    let units = 1 << units.max(1).ilog2();
    let count = x.shape().num_elements() as u32;
    sums_kernel::launch(
        &client,
        CubeCount::Static(cubes as u32, 1, 1),
        CubeDim::new_1d(units as u32),
        x.required_address_type(),
        x.into_tensor_arg(),
        output.clone().into_tensor_arg(),
        count,
        square,
        Sharing::Cube { units, size: units },
        from,
        to,
    );
    output
}
