//! Stochastic gradient descent as `torch.optim.SGD`: with momentum, optionally Nesterov's, and with weight decay as part of
//! the gradient.

use burn::tensor::Tensor;

use super::rule::{Buffers, Rule, UpdateNumber};

const MOMENTUM_BUFFER: &str = "momentum_buffer";

/// SGD.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sgd {
    /// Fraction of the momentum that is kept at each update; with 0, no momentum is stored.
    pub(super) momentum: f64,
    /// Whether the update is `g + momentum m` with the new momentum `m`, instead of `m` itself.
    pub(super) nesterov: bool,
}

impl Rule for Sgd {
    fn buffers(&self) -> &'static [&'static str] {
        if self.momentum > 0.0 {
            &[MOMENTUM_BUFFER]
        } else {
            &[]
        }
    }

    fn update(
        &self,
        weight: Tensor<1>,
        gradient: Tensor<1>,
        number: &UpdateNumber,
        buffers: &mut Buffers,
    ) -> Tensor<1> {
        let mut update = gradient;
        if number.weight_decay > 0.0 {
            update = update + weight.clone() * number.weight_decay;
        }
        if self.momentum > 0.0 {
            // PyTorch's first momentum is the gradient itself: the same as here, starting from zeros.
            let momentum = buffers.take(MOMENTUM_BUFFER, &weight) * self.momentum + update.clone();
            update = if self.nesterov {
                update + momentum.clone() * self.momentum
            } else {
                momentum.clone()
            };
            buffers.put(MOMENTUM_BUFFER, momentum);
        }
        weight - update * number.lr
    }
}
