//! AdamW (Loshchilov & Hutter, Decoupled Weight Decay Regularization, 2019) in PyTorch's order of operations.

use burn::tensor::Tensor;
use kvt_ops::{AdamWInput, AdamWStep, Guard, adamw};

use super::rule::{Buffers, Gradient, MOMENTS, Parameter, Rule, UpdateNumber};

/// AdamW, with the fused operation [`adamw`].
#[derive(Clone, Copy, Debug)]
pub(super) struct AdamW {
    /// Decay rates of the two moments.
    pub(super) betas: (f64, f64),
    /// Added to the square root of the second moment.
    pub(super) eps: f64,
}

impl Rule for AdamW {
    fn buffers(&self) -> &'static [&'static str] {
        &MOMENTS
    }

    fn supports_device_decision(&self) -> bool {
        true
    }

    fn update(
        &self,
        weight: Tensor<1>,
        gradient: Gradient,
        buffers: &mut Buffers,
        number: UpdateNumber<'_>,
    ) -> Tensor<1> {
        let old = weight.clone();
        let updated = adamw(vec![self.input(weight, gradient, buffers, number)], None);
        // Exactly one element.
        updated.into_iter().fold(old, |_, (weight, moments)| {
            buffers.put_moments(moments);
            weight
        })
    }

    fn update_all(
        &self,
        parameters: Vec<Parameter<'_>>,
        guard: Option<&Guard>,
    ) -> Vec<(Tensor<1>, Buffers)> {
        let take = |parameter: Parameter<'_>| {
            let Parameter {
                weight,
                gradient,
                mut buffers,
                number,
            } = parameter;
            (self.input(weight, gradient, &mut buffers, number), buffers)
        };
        let (inputs, buffers): (Vec<_>, Vec<_>) = parameters.into_iter().map(take).unzip();
        let updated = adamw(inputs, guard).into_iter().zip(buffers);
        let put = |((weight, moments), mut buffers): (_, Buffers)| {
            buffers.put_moments(moments);
            (weight, buffers)
        };
        updated.map(put).collect()
    }
}

impl AdamW {
    /// The input of the operation for a parameter; the moments are taken out of the buffers.
    fn input(
        &self,
        weight: Tensor<1>,
        gradient: Gradient,
        buffers: &mut Buffers,
        number: UpdateNumber<'_>,
    ) -> AdamWInput {
        AdamWInput {
            moments: buffers.take_moments(&weight),
            weight,
            grad: gradient.values,
            step: AdamWStep {
                grad_scale: gradient.scale,
                weight_scale: 1.0 - number.lr * number.weight_decay,
                betas: self.betas,
                eps: self.eps,
                step_size: number.lr / number.bias_correction(self.betas.0),
                inv_sqrt_bias_correction2: 1.0 / number.bias_correction(self.betas.1).sqrt(),
            },
        }
    }
}
