//! AdamW on the CubeCL runtimes: the launches of its kernels.

use burn::backend::ops::FloatTensorOps;
use burn::backend::{Backend, TensorMetadata, cubecl::dtype_to_storage_type, tensor::FloatTensor};
use burn::tensor::{DType, Shape, Slice};
use burn_cubecl::{CubeBackend, kernel::into_contiguous, tensor::CubeTensor};
use cubecl::prelude::*;

use super::kernel::{
    StepLaunch, adamw_kernel, chosen_kernel, guard_kernel, guarded_adamw_kernel, sums_kernel,
};
use super::{AdamWOps, AdamWStep};
use crate::gpu::launch::{address, empty};
use crate::gpu::row_group::RowStrategy;

/// Units of a cube that updates.
const UNITS: u32 = 256;

/// Buffers of that kernel: seven tensors and their shapes. A guard is one more.
const BINDINGS: u32 = 8;

/// Units of a cube that sums.
const SUM_UNITS: usize = 64;
/// Cubes that sum at once, at most.
const SUM_CUBES: usize = 256;
/// Numbers that a unit sums, at least, unless there is one cube.
const SUM_NUMBERS: usize = 64;

impl AdamWOps for CubeBackend {
    fn square_sum(x: FloatTensor<Self>) -> FloatTensor<Self> {
        let x = into_contiguous(x);
        let count = x.shape().num_elements();
        let cubes = count.div_ceil(SUM_UNITS * SUM_NUMBERS).clamp(1, SUM_CUBES);
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
        exp_avg: FloatTensor<Self>,
        exp_avg_sq: FloatTensor<Self>,
        step: AdamWStep,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        if weight.client.properties().hardware.max_bindings < BINDINGS {
            return composed::<Self>(weight, grad, [exp_avg, exp_avg_sq], step);
        }
        let inputs = [weight, grad, exp_avg, exp_avg_sq].map(into_contiguous);
        let [weight, ..] = &inputs;
        let count = weight.shape().num_elements() as u32;
        if count == 0 {
            let [weight, _, exp_avg, exp_avg_sq] = inputs;
            return (weight, exp_avg, exp_avg_sq);
        }
        let outputs = [0, 1, 2].map(|_| empty(weight, weight.shape(), weight.dtype));
        let (client, dtype) = (weight.client.clone(), weight.dtype);
        let (cubes, units) = cubes(weight);
        let address = address(&[weight]);
        let [weight, grad, exp_avg, exp_avg_sq] = inputs.map(|x| x.into_tensor_arg());
        let [a, b, c] = outputs.clone().map(|x| x.into_tensor_arg());
        adamw_kernel::launch(
            &client,
            cubes,
            units,
            address,
            weight,
            grad,
            exp_avg,
            exp_avg_sq,
            a,
            b,
            c,
            numbers(step),
            count,
            dtype_to_storage_type(dtype),
        );
        outputs.into()
    }

    fn guard(
        numbers: FloatTensor<Self>,
        before: FloatTensor<Self>,
        max_norm: f64,
    ) -> FloatTensor<Self> {
        let [numbers, before] = [numbers, before].map(into_contiguous);
        let output = empty(&numbers, Shape::new([2]), DType::F32);
        let client = numbers.client.clone();
        let count = numbers.shape().num_elements() as u32;
        guard_kernel::launch(
            &client,
            CubeCount::Static(1, 1, 1),
            CubeDim::new_1d(1),
            address(&[&numbers, &before]),
            numbers.into_tensor_arg(),
            before.into_tensor_arg(),
            output.clone().into_tensor_arg(),
            count,
            max_norm as f32,
        );
        output
    }

    fn guarded_adamw(
        weight: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        exp_avg: FloatTensor<Self>,
        exp_avg_sq: FloatTensor<Self>,
        guard: FloatTensor<Self>,
        step: AdamWStep,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        if weight.client.properties().hardware.max_bindings < BINDINGS + 1 {
            return chosen_adamw(weight, grad, [exp_avg, exp_avg_sq], guard, step);
        }
        let inputs = [weight, grad, exp_avg, exp_avg_sq].map(into_contiguous);
        let [weight, ..] = &inputs;
        let count = weight.shape().num_elements() as u32;
        if count == 0 {
            let [weight, _, exp_avg, exp_avg_sq] = inputs;
            return (weight, exp_avg, exp_avg_sq);
        }
        let outputs = [0, 1, 2].map(|_| empty(weight, weight.shape(), weight.dtype));
        let (client, dtype) = (weight.client.clone(), weight.dtype);
        let (cubes, units) = cubes(weight);
        let address = address(&[weight]);
        let [weight, grad, exp_avg, exp_avg_sq] = inputs.map(|x| x.into_tensor_arg());
        let [a, b, c] = outputs.clone().map(|x| x.into_tensor_arg());
        guarded_adamw_kernel::launch(
            &client,
            cubes,
            units,
            address,
            weight,
            grad,
            exp_avg,
            exp_avg_sq,
            into_contiguous(guard).into_tensor_arg(),
            a,
            b,
            c,
            numbers(step),
            count,
            dtype_to_storage_type(dtype),
        );
        outputs.into()
    }
}

/// Cubes and their units, one unit for each number of a tensor that is not empty.
fn cubes(x: &CubeTensor) -> (CubeCount, CubeDim) {
    let hardware = &x.client.properties().hardware;
    let units = UNITS.min(hardware.max_units_per_cube);
    let cubes = (x.shape().num_elements() as u32).div_ceil(units);
    let x = cubes.min(hardware.max_cube_count.0);
    let count = CubeCount::Static(x, cubes.div_ceil(x), 1);
    (count, CubeDim::new_1d(units))
}

/// The numbers of a step, for a kernel.
fn numbers(step: AdamWStep) -> StepLaunch {
    let (beta1, beta2) = step.betas;
    StepLaunch::new(
        step.grad_scale as f32,
        step.weight_scale as f32,
        beta1 as f32,
        (1.0 - beta1) as f32,
        beta2 as f32,
        (1.0 - beta2) as f32,
        step.eps as f32,
        step.step_size as f32,
        step.inv_sqrt_bias_correction2 as f32,
    )
}

/// [`guarded_adamw_kernel`] for devices whose kernels have too few bindings: the update is made, and then chosen or not.
fn chosen_adamw(
    weight: CubeTensor,
    grad: CubeTensor,
    [exp_avg, exp_avg_sq]: [CubeTensor; 2],
    guard: CubeTensor,
    step: AdamWStep,
) -> (CubeTensor, CubeTensor, CubeTensor) {
    let factor = CubeBackend::float_slice(guard.clone(), &[Slice::from(0..1)]);
    let factor = CubeBackend::float_cast(factor, weight.dtype.into());
    let grad = CubeBackend::float_mul(grad, factor);
    let old = [weight, exp_avg, exp_avg_sq];
    let [weight, exp_avg, exp_avg_sq] = old.clone();
    let (a, b, c) = CubeBackend::adamw(weight, grad, exp_avg, exp_avg_sq, step);
    let [x, y, z] = old;
    (
        chosen(x, a, &guard),
        chosen(y, b, &guard),
        chosen(z, c, &guard),
    )
}

/// The new tensor if the update is made, else the old one.
fn chosen(old: CubeTensor, new: CubeTensor, guard: &CubeTensor) -> CubeTensor {
    let count = old.shape().num_elements() as u32;
    if count == 0 {
        return old;
    }
    let old = into_contiguous(old);
    let output = empty(&old, old.shape(), old.dtype);
    let (client, dtype) = (old.client.clone(), old.dtype);
    let (cubes, units) = cubes(&old);
    chosen_kernel::launch(
        &client,
        cubes,
        units,
        address(&[&old]),
        into_contiguous(guard.clone()).into_tensor_arg(),
        old.into_tensor_arg(),
        new.into_tensor_arg(),
        output.clone().into_tensor_arg(),
        count,
        dtype_to_storage_type(dtype),
    );
    output
}

/// The update composed of Burn's operations, for devices whose kernels have too few bindings.
fn composed<B: Backend>(
    weight: FloatTensor<B>,
    grad: FloatTensor<B>,
    [exp_avg, exp_avg_sq]: [FloatTensor<B>; 2],
    step: AdamWStep,
) -> (FloatTensor<B>, FloatTensor<B>, FloatTensor<B>) {
    let times = |x, scale: f64| B::float_mul_scalar(x, scale.into());
    let (beta1, beta2) = step.betas;
    let grad = times(grad, step.grad_scale);
    let square = B::float_mul(grad.clone(), grad.clone());
    let exp_avg = B::float_add(times(exp_avg, beta1), times(grad, 1.0 - beta1));
    let exp_avg_sq = B::float_add(times(exp_avg_sq, beta2), times(square, 1.0 - beta2));
    let root = times(
        B::float_sqrt(exp_avg_sq.clone()),
        step.inv_sqrt_bias_correction2,
    );
    let denominator = B::float_add_scalar(root, step.eps.into());
    let change = times(B::float_div(exp_avg.clone(), denominator), step.step_size);
    let weight = B::float_sub(times(weight, step.weight_scale), change);
    (weight, exp_avg, exp_avg_sq)
}

/// As many sums as cubes, of the numbers or of their squares.
fn sums(x: CubeTensor, cubes: usize, square: bool, dtype: DType) -> CubeTensor {
    let output = empty(&x, Shape::new([cubes]), dtype);
    let client = x.client.clone();
    let [from, to] = [x.dtype, dtype].map(dtype_to_storage_type);
    let units = SUM_UNITS.min(client.properties().hardware.max_units_per_cube as usize);
    // A power of two, as in every row group.
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
        RowStrategy::Cube { units, size: units },
        from,
        to,
    );
    output
}

#[cfg(all(test, feature = "wgpu"))]
mod tests {
    use super::*;
    use crate::gpu::testing::{Gpu, device};

    fn inputs(device: &Gpu) -> [CubeTensor; 4] {
        let numbers = |seed: usize| -> Vec<f32> {
            let number = |i: usize| ((i * 7919 + seed * 104_729) % 2003) as f32 / 500.0;
            (0..1000).map(number).collect()
        };
        [1, 2, 3, 4].map(|seed| device.tensor(&numbers(seed), [1000]))
    }

    const STEP: AdamWStep = AdamWStep {
        grad_scale: 0.5,
        weight_scale: 0.9,
        betas: (0.8, 0.95),
        eps: 1e-3,
        step_size: 0.1,
        inv_sqrt_bias_correction2: 2.0,
    };

    #[track_caller]
    fn assert_same(device: &Gpu, actual: [CubeTensor; 3], expected: [CubeTensor; 3]) {
        let [actual, expected] = [actual, expected].map(|all| all.map(|x| device.values(x)));
        for (actual, expected) in actual.iter().zip(&expected) {
            assert_eq!(actual.len(), 1000);
            for (a, e) in actual.iter().zip(expected) {
                assert!((a - e).abs() <= 1e-6 * e.abs().max(1.0), "{a} is not {e}");
            }
        }
    }

    /// Devices with few bindings get the same update.
    #[test]
    fn the_composed_update_matches_the_kernel() {
        let Some(device) = device() else { return };
        let [weight, grad, exp_avg, exp_avg_sq] = inputs(&device);
        let expected = composed::<CubeBackend>(weight, grad, [exp_avg, exp_avg_sq], STEP);
        let [weight, grad, exp_avg, exp_avg_sq] = inputs(&device);
        let actual = CubeBackend::adamw(weight, grad, exp_avg, exp_avg_sq, STEP);
        assert_same(&device, actual.into(), expected.into());
    }

    /// Whether the update is made or not.
    #[test]
    fn the_chosen_update_matches_the_guarded_kernel() {
        let Some(device) = device() else { return };
        for made in [0.0, 1.0] {
            let guard = || device.tensor(&[0.25, made], [2]);
            let [weight, grad, exp_avg, exp_avg_sq] = inputs(&device);
            let expected =
                CubeBackend::guarded_adamw(weight, grad, exp_avg, exp_avg_sq, guard(), STEP);
            let [weight, grad, exp_avg, exp_avg_sq] = inputs(&device);
            let actual = chosen_adamw(weight, grad, [exp_avg, exp_avg_sq], guard(), STEP);
            assert_same(&device, actual.into(), expected.into());
        }
    }
}
