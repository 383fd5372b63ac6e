//! AdamW (Loshchilov & Hutter, Decoupled Weight Decay Regularization, 2019) in PyTorch's order of operations.

use burn::tensor::Tensor;
use kvt_ops::{AdamWInput, AdamWStep, Guard, adamw};

use super::rule::{Buffers, Parameter};

/// AdamW, with the fused operation [`adamw`].
#[derive(Clone, Copy, Debug)]
pub(super) struct AdamW {
    /// Decay rates of the two moments.
    pub(super) betas: (f64, f64),
    /// Added to the square root of the second moment.
    pub(super) eps: f64,
}

impl AdamW {
    /// The new weights and buffers of parameters: at the first update of one, its buffers are empty. A guard decides whether the update
    /// is made, and contributes a factor of the gradients.
    pub(super) fn update(
        &self,
        parameters: Vec<(Parameter, Buffers)>,
        guard: Option<&Guard>,
    ) -> Vec<(Tensor<1>, Buffers)> {
        let take = |(parameter, mut buffers): (Parameter, Buffers)| {
            (self.input(parameter, &mut buffers), buffers)
        };
        let (inputs, buffers): (Vec<_>, Vec<_>) = parameters.into_iter().map(take).unzip();
        let updated = adamw(inputs, guard).into_iter().zip(buffers);
        let put = |((weight, moments), mut buffers): (_, Buffers)| {
            buffers.put_moments(moments);
            (weight, buffers)
        };
        updated.map(put).collect()
    }

    /// The input of the operation for a parameter; the moments are taken out of the buffers.
    fn input(&self, parameter: Parameter, buffers: &mut Buffers) -> AdamWInput {
        let number = parameter.number;
        AdamWInput {
            moments: buffers.take_moments(&parameter.weight),
            weight: parameter.weight,
            grad: parameter.gradient.values,
            step: AdamWStep {
                grad_scale: parameter.gradient.scale,
                weight_scale: 1.0 - number.lr * number.weight_decay,
                betas: self.betas,
                eps: self.eps,
                step_size: number.lr / number.bias_correction(self.betas.0),
                inv_sqrt_bias_correction2: 1.0 / number.bias_correction(self.betas.1).sqrt(),
            },
        }
    }
}
