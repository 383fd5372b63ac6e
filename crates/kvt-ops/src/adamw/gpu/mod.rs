//! AdamW on the CubeCL runtimes: the launches of its kernels.

mod few_bindings;
mod kernel;
mod sums;

use burn::backend::{TensorMetadata, cubecl::dtype_to_storage_type, tensor::FloatTensor};
use burn::tensor::{DType, Shape};
use burn_cubecl::{CubeBackend, kernel::into_contiguous, tensor::CubeTensor};
use cubecl::prelude::*;

use self::few_bindings::chosen_adamw;
use self::kernel::{StepLaunch, adamw_kernel, guard_kernel};
use super::eight::{Eight, GROUP, transposed, zip};
use super::{AdamWOps, AdamWStep};
use crate::gpu::launch::{address, empty, one_unit_per_number};

/// Bindings of that kernel: seven for each parameter, the guard, and the shapes.
const BINDINGS_OF_EACH: u32 = 7;
const BINDINGS_OF_ALL: u32 = 2;

impl AdamWOps for CubeBackend {
    fn square_sum(x: FloatTensor<Self>) -> FloatTensor<Self> {
        sums::square_sum(x)
    }

    fn add_square_sums(parts: FloatTensor<Self>, tensors: Eight<Self>) -> FloatTensor<Self> {
        let bindings = parts.client.properties().hardware.max_bindings;
        sums::add(parts, &tensors.into_array().map(into_contiguous), bindings)
    }

    fn sum_of_parts(parts: FloatTensor<Self>) -> FloatTensor<Self> {
        sums::sum(parts)
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

    fn adamw(
        weight: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        exp_avg: FloatTensor<Self>,
        exp_avg_sq: FloatTensor<Self>,
        guard: FloatTensor<Self>,
        step: AdamWStep,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        if weight.shape().num_elements() == 0 {
            return (weight, exp_avg, exp_avg_sq);
        }
        let input = [weight, grad, exp_avg, exp_avg_sq].map(into_contiguous);
        let guard = into_contiguous(guard);
        let output = match at_once(&guard) {
            0 => chosen_adamw(input, &guard, step),
            at_once => {
                let [output] = update(&[input], &guard, &[step], at_once);
                output
            }
        };
        output.into()
    }

    fn adamw_of_eight(
        weights: Eight<Self>,
        grads: Eight<Self>,
        exp_avgs: Eight<Self>,
        exp_avg_sqs: Eight<Self>,
        guard: FloatTensor<Self>,
        steps: [AdamWStep; GROUP],
    ) -> (Eight<Self>, Eight<Self>, Eight<Self>) {
        let guard = into_contiguous(guard);
        let inputs = [weights, grads, exp_avgs, exp_avg_sqs].map(Eight::into_array);
        let inputs = transposed(inputs).map(|input| input.map(into_contiguous));
        let outputs = match at_once(&guard) {
            0 => zip(inputs, steps).map(|(input, step)| chosen_adamw(input, &guard, step)),
            at_once => update(&inputs, &guard, &steps, at_once),
        };
        transposed(outputs).map(Eight::<Self>::new).into()
    }
}

/// How many parameters fit in one launch on the device of a tensor.
fn at_once(x: &CubeTensor) -> usize {
    let bindings = x.client.properties().hardware.max_bindings;
    (bindings.saturating_sub(BINDINGS_OF_ALL) / BINDINGS_OF_EACH) as usize
}

/// The new weight and both moments of several non-empty parameters, `at_once` per launch. An input is weight, gradient and both
/// moments.
fn update<const N: usize>(
    inputs: &[[CubeTensor; 4]; N],
    guard: &CubeTensor,
    steps: &[AdamWStep; N],
    at_once: usize,
) -> [[CubeTensor; 3]; N] {
    let outputs = inputs.each_ref().map(|[weight, _, exp_avg, exp_avg_sq]| {
        [weight, exp_avg, exp_avg_sq].map(|x| empty(x, x.shape(), x.dtype))
    });
    let groups = inputs.chunks(at_once).zip(outputs.chunks(at_once));
    for ((inputs, outputs), steps) in groups.zip(steps.chunks(at_once)) {
        let input = |place: usize| inputs.iter().map(move |x| arg(&x[place]));
        let output = |place: usize| outputs.iter().map(move |x| arg(&x[place]));
        let weights: Vec<_> = inputs.iter().map(|[weight, ..]| weight).collect();
        let counts: Vec<_> = weights
            .iter()
            .map(|x| x.shape().num_elements() as u32)
            .collect();
        let (cubes, units) = one_unit_per_number(guard, counts.iter().copied().max().unwrap_or(0));
        adamw_kernel::launch(
            &guard.client,
            cubes,
            units,
            address(&weights),
            input(0).collect(),
            input(1).collect(),
            input(2).collect(),
            input(3).collect(),
            arg(guard),
            output(0).collect(),
            output(1).collect(),
            output(2).collect(),
            steps.iter().copied().map(numbers).collect(),
            counts.into_iter().collect(),
            inputs.len(),
            dtype_to_storage_type(inputs[0][0].dtype),
        );
    }
    outputs
}

fn arg(x: &CubeTensor) -> TensorArg {
    x.clone().into_tensor_arg()
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

#[cfg(all(test, feature = "wgpu"))]
mod tests;
