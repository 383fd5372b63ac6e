//! Muon (Jordan et al., 2024, <https://kellerjordan.github.io/posts/muon/>) as `torch.optim.Muon` with
//! `adjust_lr_fn = "match_rms_adamw"` (Liu et al., Muon is Scalable for LLM Training, 2025,
//! <https://arxiv.org/abs/2502.16982>, equation 4): an update has the same magnitude as AdamW's, so that both parts of
//! the optimizer share learning rate and weight decay.
//!
//! PyTorch orthogonalises in bfloat16; here the type of the weights is used.

use burn::tensor::Tensor;
use kvt_ops::square_sum;

use super::OptimConfig;
use super::rule::{Buffers, Rule, UpdateNumber, lerp};

const MOMENTUM_BUFFER: &str = "momentum_buffer";

/// Coefficients of the iteration, chosen by its author for a steep slope at 0.
const COEFFICIENTS: (f64, f64, f64) = (3.4445, -4.7750, 2.0315);

/// Number of iterations.
const STEPS: usize = 5;

/// The minimum norm that a matrix is divided by.
const EPS: f64 = 1e-7;

/// Muon, for matrices.
pub(super) const RULE: Rule = Rule {
    buffers: &[MOMENTUM_BUFFER],
    update,
};

fn update(
    config: &OptimConfig,
    weight: Tensor<1>,
    gradient: Tensor<1>,
    number: &UpdateNumber,
    buffers: &mut Buffers,
) -> Tensor<1> {
    let momentum = buffers.take(MOMENTUM_BUFFER, &weight);
    let momentum = lerp(momentum, gradient.clone(), 1.0 - config.momentum);
    // Or, by Nesterov, `(1 - momentum) g + momentum m` with the new momentum `m`, instead of `m` itself.
    let update = if config.nesterov {
        lerp(gradient, momentum.clone(), config.momentum)
    } else {
        momentum.clone()
    };
    buffers.put(MOMENTUM_BUFFER, momentum);
    // Each row consists of all dimensions except the first. The layout of a matrix does not matter: its transpose
    // gives the transposed update of the same magnitude.
    let rows = number.shape.first().copied().unwrap_or(1);
    let columns = number.shape.iter().skip(1).product::<usize>();
    let update = orthogonalised(update, [rows, columns]);
    let lr = number.lr * 0.2 * (rows.max(columns) as f64).sqrt();
    weight * (1.0 - number.lr * number.weight_decay) - update * lr
}

/// Approximately `U V^T` of a matrix `U S V^T`: five Newton-Schulz steps, which bring every singular value near 1.
fn orthogonalised(matrix: Tensor<1>, [rows, columns]: [usize; 2]) -> Tensor<1> {
    let (a, b, c) = COEFFICIENTS;
    let norm = square_sum(matrix.clone()).sqrt().clamp_min(EPS);
    let wide = |matrix: Tensor<2>| {
        if rows > columns {
            matrix.transpose()
        } else {
            matrix
        }
    };
    let mut x = wide((matrix / norm).reshape([rows, columns]));
    for _ in 0..STEPS {
        let gram = x.clone().matmul(x.clone().transpose());
        let polynomial = gram.clone() * b + gram.clone().matmul(gram) * c;
        x = x.clone() * a + polynomial.matmul(x);
    }
    wide(x).reshape([rows * columns])
}
