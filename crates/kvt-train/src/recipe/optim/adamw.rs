//! AdamW (Loshchilov & Hutter, Decoupled Weight Decay Regularization, 2019) in PyTorch's order of operations.

use burn::tensor::Tensor;
use kvt_ops::{AdamWStep, adamw, guarded_adamw};

use super::rule::{Buffers, Gradient, MOMENTS, Rule, UpdateNumber};

/// AdamW, by the fused operation [`adamw`].
#[derive(Clone, Copy, Debug)]
pub(super) struct AdamW {
    /// Decay rates of the two moments.
    pub(super) betas: (f64, f64),
    /// Added to the root of the second moment.
    pub(super) eps: f64,
}

impl Rule for AdamW {
    fn buffers(&self) -> &'static [&'static str] {
        &MOMENTS
    }

    fn heeds_guards(&self) -> bool {
        true
    }

    fn update(
        &self,
        weight: Tensor<1>,
        gradient: Gradient,
        buffers: &mut Buffers,
        number: UpdateNumber<'_>,
    ) -> Tensor<1> {
        let moments = buffers.take_moments(&weight);
        let step = AdamWStep {
            grad_scale: gradient.scale,
            weight_scale: 1.0 - number.lr * number.weight_decay,
            betas: self.betas,
            eps: self.eps,
            step_size: number.lr / number.bias_correction(self.betas.0),
            inv_sqrt_bias_correction2: 1.0 / number.bias_correction(self.betas.1).sqrt(),
        };
        let Gradient { values, guard, .. } = gradient;
        let (weight, moments) = match guard {
            Some(guard) => guarded_adamw(weight, values, moments, &guard, step),
            None => adamw(weight, values, moments, step),
        };
        buffers.put_moments(moments);
        weight
    }
}
