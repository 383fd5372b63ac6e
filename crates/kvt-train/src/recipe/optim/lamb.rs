//! LAMB (You et al., Large Batch Optimization for Deep Learning, 2020, <https://arxiv.org/abs/1904.00962>) as timm's
//! `Lamb`, without its built-in clipping, which is `optim.clip_norm` here.

use burn::tensor::Tensor;
use kvt_ops::square_sum;

use super::OptimConfig;
use super::rule::{Buffers, MOMENTS, Rule, UpdateNumber, lerp};

/// LAMB.
pub(super) const RULE: Rule = Rule {
    buffers: &MOMENTS,
    update,
};

fn update(
    config: &OptimConfig,
    weight: Tensor<1>,
    gradient: Tensor<1>,
    number: &UpdateNumber,
    buffers: &mut Buffers,
) -> Tensor<1> {
    let [beta1, beta2] = config.betas;
    let [exp_avg, exp_avg_sq] = buffers.take_moments(&weight);
    let exp_avg = lerp(exp_avg, gradient.clone(), 1.0 - beta1);
    let exp_avg_sq = lerp(exp_avg_sq, gradient.square(), 1.0 - beta2);
    buffers.put_moments([exp_avg.clone(), exp_avg_sq.clone()]);

    let root = exp_avg_sq.sqrt() / number.bias_correction(beta2).sqrt();
    let mut update = exp_avg / number.bias_correction(beta1) / (root + config.eps);
    // As in timm, parameters without decay use the common rate.
    if number.weight_decay > 0.0 {
        update = update + weight.clone() * number.weight_decay;
        let ratio = trust_ratio(weight.clone(), update.clone());
        update = update * ratio;
    }
    weight - update * number.lr
}

/// The ratio of the norms of weights and update, `[1]`; 1 where one of them is 0.
fn trust_ratio(weight: Tensor<1>, update: Tensor<1>) -> Tensor<1> {
    let [weight, update] = [weight, update].map(|x| square_sum(x).sqrt());
    let is_none = weight
        .clone()
        .lower_equal_scalar(0.0)
        .bool_or(update.clone().lower_equal_scalar(0.0));
    (weight / update).mask_fill(is_none, 1.0)
}
