//! Lion (Chen et al., Symbolic Discovery of Optimization Algorithms, 2023, <https://arxiv.org/abs/2302.06675>) as timm's
//! `Lion`.

use burn::tensor::Tensor;

use super::OptimConfig;
use super::rule::{Buffers, Rule, UpdateNumber, lerp};

const EXP_AVG: &str = "exp_avg";

/// Lion.
pub(super) const RULE: Rule = Rule {
    buffers: &[EXP_AVG],
    update,
};

fn update(
    config: &OptimConfig,
    weight: Tensor<1>,
    gradient: Tensor<1>,
    number: &UpdateNumber,
    buffers: &mut Buffers,
) -> Tensor<1> {
    // The weight of the momentum in an update, and the decay of the momentum.
    let [beta1, beta2] = config.betas;
    let exp_avg = buffers.take(EXP_AVG, &weight);
    let update = lerp(exp_avg.clone(), gradient.clone(), 1.0 - beta1).sign();
    buffers.put(EXP_AVG, lerp(exp_avg, gradient, 1.0 - beta2));
    weight * (1.0 - number.lr * number.weight_decay) - update * number.lr
}
