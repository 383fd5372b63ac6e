//! AdamW (Loshchilov & Hutter, Decoupled Weight Decay Regularization, 2019) in PyTorch's order of operations.

use kvt_ops::AdamWStep;

use super::rule::UpdateNumber;

/// AdamW, with the fused operation [`adamw`](kvt_ops::adamw()).
#[derive(Clone, Copy, Debug)]
pub(super) struct AdamW {
    /// Decay rates of the two moments.
    pub(super) betas: (f64, f64),
    /// Added to the square root of the second moment.
    pub(super) eps: f64,
}

impl AdamW {
    /// The numbers of the operation for an update of a parameter, whose gradient has this pending factor.
    pub(super) fn step(&self, number: &UpdateNumber, grad_scale: f64) -> AdamWStep {
        AdamWStep {
            grad_scale,
            weight_scale: 1.0 - number.lr * number.weight_decay,
            betas: self.betas,
            eps: self.eps,
            step_size: number.lr / number.bias_correction(self.betas.0),
            inv_sqrt_bias_correction2: 1.0 / number.bias_correction(self.betas.1).sqrt(),
        }
    }
}
