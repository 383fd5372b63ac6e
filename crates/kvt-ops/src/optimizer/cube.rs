//! Optimizers on every CubeCL runtime: the kernels, launched.

use burn::backend::{TensorMetadata, cubecl::dtype_to_storage_type, tensor::FloatTensor};
use burn::tensor::{DType, Shape};
use burn_cubecl::{CubeBackend, kernel::into_contiguous, tensor::CubeTensor};
use cubecl::prelude::*;

use super::kernel::{StepLaunch, adamw_kernel, sums_kernel};
use super::{AdamWStep, OptimizerOps, composed};
use crate::kernels::launch::{address, empty};
use crate::kernels::team::Sharing;

/// Units of a cube of the update.
const UNITS: u32 = 256;

/// Buffers of its kernel: seven tensors, and their shapes.
const BINDINGS: u32 = 8;

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
        if weight.client.properties().hardware.max_bindings < BINDINGS {
            return composed::<Self>(weight, grad, [first, second], step);
        }
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

#[cfg(all(test, feature = "wgpu"))]
mod tests {
    use super::*;
    use crate::kernels::testing::device;

    /// On a device with few bindings the update is the same.
    #[test]
    fn the_composed_update_is_that_of_the_kernel() {
        let Some(device) = device() else { return };
        let numbers = |seed: usize| -> Vec<f32> {
            let number = |i: usize| ((i * 7919 + seed * 104_729) % 2003) as f32 / 500.0;
            (0..1000).map(number).collect()
        };
        let inputs = || [1, 2, 3, 4].map(|seed| device.tensor(&numbers(seed), [1000]));
        let step = AdamWStep {
            factor: 0.5,
            decay: 0.9,
            betas: (0.8, 0.95),
            eps: 1e-3,
            size: 0.1,
            correction: 2.0,
        };
        let [weight, grad, first, second] = inputs();
        let (a, b, c) = composed::<CubeBackend>(weight, grad, [first, second], step);
        let expected = [a, b, c].map(|x| device.values(x));
        let [weight, grad, first, second] = inputs();
        let (a, b, c) = CubeBackend::adamw(weight, grad, first, second, step);
        let actual = [a, b, c].map(|x| device.values(x));
        for (actual, expected) in actual.iter().zip(&expected) {
            assert_eq!(actual.len(), 1000);
            for (a, e) in actual.iter().zip(expected) {
                assert!((a - e).abs() <= 1e-6 * e.abs().max(1.0), "{a} is not {e}");
            }
        }
    }
}
