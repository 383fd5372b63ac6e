//! AdamW (Loshchilov & Hutter, Decoupled Weight Decay Regularization, 2019) in PyTorch's order of operations.

use kvt_ops::AdamWStep;

use super::OptimConfig;
use super::rule::UpdateNumber;

/// The numbers of the fused operation [`adamw`](kvt_ops::adamw()) for an update of a parameter, whose gradient has this pending factor.
pub(super) fn step(config: &OptimConfig, number: &UpdateNumber, grad_scale: f64) -> AdamWStep {
    let [beta1, beta2] = config.betas;
    AdamWStep {
        grad_scale,
        weight_scale: 1.0 - number.lr * number.weight_decay,
        betas: (beta1, beta2),
        eps: config.eps,
        step_size: number.lr / number.bias_correction(beta1),
        inv_sqrt_bias_correction2: 1.0 / number.bias_correction(beta2).sqrt(),
    }
}
