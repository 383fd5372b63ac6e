//! Stochastic gradient descent as `torch.optim.SGD`: with momentum, optionally Nesterov's, and with weight decay as part of
//! the gradient.

use burn::tensor::Tensor;

use super::OptimConfig;
use super::rule::{Buffers, Rule, UpdateNumber};

const MOMENTUM_BUFFER: &str = "momentum_buffer";

/// SGD, which stores no momentum if it is 0.
pub(super) fn rule(config: &OptimConfig) -> Rule {
    Rule {
        buffers: if config.momentum > 0.0 {
            &[MOMENTUM_BUFFER]
        } else {
            &[]
        },
        update,
    }
}

fn update(
    config: &OptimConfig,
    weight: Tensor<1>,
    gradient: Tensor<1>,
    number: &UpdateNumber,
    buffers: &mut Buffers,
) -> Tensor<1> {
    let mut update = gradient;
    if number.weight_decay > 0.0 {
        update = update + weight.clone() * number.weight_decay;
    }
    if config.momentum > 0.0 {
        // PyTorch's first momentum is the gradient itself: the same as here, starting from zeros.
        let momentum = buffers.take(MOMENTUM_BUFFER, &weight) * config.momentum + update.clone();
        // Nesterov's is `g + momentum m` with the new momentum `m`, instead of `m` itself.
        update = if config.nesterov {
            update + momentum.clone() * config.momentum
        } else {
            momentum.clone()
        };
        buffers.put(MOMENTUM_BUFFER, momentum);
    }
    weight - update * number.lr
}
