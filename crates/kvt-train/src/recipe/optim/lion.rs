//! Lion (Chen et al., Symbolic Discovery of Optimization Algorithms, 2023, <https://arxiv.org/abs/2302.06675>) as timm's
//! `Lion`.

use burn::tensor::Tensor;

use super::rule::{Buffers, Rule, UpdateNumber, lerp};

const EXP_AVG: &str = "exp_avg";

/// Lion.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lion {
    /// The weight of the momentum in an update, and the decay of the momentum.
    pub(super) betas: (f64, f64),
}

impl Rule for Lion {
    fn buffers(&self) -> &'static [&'static str] {
        &[EXP_AVG]
    }

    fn update(
        &self,
        weight: Tensor<1>,
        gradient: Tensor<1>,
        number: &UpdateNumber,
        buffers: &mut Buffers,
    ) -> Tensor<1> {
        let exp_avg = buffers.take(EXP_AVG, &weight);
        let update = lerp(exp_avg.clone(), gradient.clone(), 1.0 - self.betas.0).sign();
        buffers.put(EXP_AVG, lerp(exp_avg, gradient, 1.0 - self.betas.1));
        weight * (1.0 - number.lr * number.weight_decay) - update * number.lr
    }
}
