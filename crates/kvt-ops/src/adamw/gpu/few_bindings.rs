//! AdamW on devices with too few bindings for the kernel: composed of Burn's operations, then kept or discarded.

use burn::backend::ops::FloatTensorOps;
use burn::backend::{Backend, TensorMetadata, cubecl::dtype_to_storage_type, tensor::FloatTensor};
use burn::tensor::Slice;
use burn_cubecl::{CubeBackend, kernel::into_contiguous, tensor::CubeTensor};

use super::arg;
use super::kernel::chosen_kernel;
use crate::adamw::AdamWStep;
use crate::gpu::launch::{address, empty, one_unit_per_number};

/// [`AdamWOps::adamw`](crate::adamw::AdamWOps::adamw) of weight, gradient and both moments.
pub(super) fn chosen_adamw(
    [weight, grad, exp_avg, exp_avg_sq]: [CubeTensor; 4],
    guard: &CubeTensor,
    step: AdamWStep,
) -> [CubeTensor; 3] {
    let factor = CubeBackend::float_slice(guard.clone(), &[Slice::from(0..1)]);
    let factor = CubeBackend::float_cast(factor, weight.dtype.into());
    let grad = CubeBackend::float_mul(grad, factor);
    let old = [weight, exp_avg, exp_avg_sq];
    let [weight, exp_avg, exp_avg_sq] = old.clone();
    let (a, b, c) = composed::<CubeBackend>(weight, grad, [exp_avg, exp_avg_sq], step);
    let [weight, exp_avg, exp_avg_sq] = old;
    [
        chosen(weight, a, guard),
        chosen(exp_avg, b, guard),
        chosen(exp_avg_sq, c, guard),
    ]
}

/// The new tensor if the update is made, else the old one. Neither is empty.
fn chosen(old: CubeTensor, new: CubeTensor, guard: &CubeTensor) -> CubeTensor {
    let [old, new] = [old, new].map(into_contiguous);
    let output = empty(&old, old.shape(), old.dtype);
    let count = old.shape().num_elements() as u32;
    let (cubes, units) = one_unit_per_number(&old, count);
    chosen_kernel::launch(
        &old.client,
        cubes,
        units,
        address(&[&old]),
        arg(guard),
        arg(&old),
        arg(&new),
        arg(&output),
        count,
        dtype_to_storage_type(old.dtype),
    );
    output
}

/// The update itself.
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
