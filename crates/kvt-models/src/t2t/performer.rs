//! The Performer: attention by random features, at a cost that grows linearly with the tokens.
//!
//! Choromanski et al., *Rethinking Attention with Performers*, <https://arxiv.org/abs/2009.14794>, equation 5: for
//! random rows w of a matrix, `exp(w x - |x|^2 / 2)` are features whose products estimate `exp(q k)`.

use burn::module::{Module, Param};
use burn::nn::{LayerNorm, Linear};
use burn::tensor::Tensor;
use kvt_attention::{Dropout, attend_features, half_square};
use kvt_ops::{Phase, Residual, linear, linear_with, widened};

use super::NORM_EPSILON;
use super::token::TokenSize;
use crate::layers::{Activation, Init, Mlp, Pass, add_branch, project};
use crate::observe::Point;

/// Added to the divisor, since all features of a query may be almost zero.
const EPSILON: f64 = 1e-8;

/// Attention by random features, and an MLP, with the original's parameter names. The residual stream begins with
/// the values.
#[derive(Module, Debug)]
pub(super) struct TokenPerformer {
    /// Random directions `[features, dim]`, orthogonal and of length `sqrt(features)`: fixed, but saved.
    w: Param<Tensor<2>>,
    /// To keys, queries and values, in this order.
    kqv: Linear,
    proj: Linear,
    norm1: LayerNorm,
    norm2: LayerNorm,
    /// Named `mlp.0` and `mlp.2` in weights.
    sequential: Mlp,
    /// Dropout of both branches.
    #[module(skip)]
    drop: f64,
}

impl TokenPerformer {
    pub(super) fn new(init: &Init<'_>, size: &TokenSize, drop: f64) -> Self {
        let TokenSize { input, dim, .. } = *size;
        let features = size.features();
        let shape = [features, dim];
        let w = init.orthogonal("w", shape, (features as f64).sqrt());
        Self {
            w: init.fixed(shape, w),
            kqv: init.linear("kqv", input, 3 * dim, true),
            proj: init.linear("proj", dim, dim, true),
            norm1: init.layer_norm(input, NORM_EPSILON),
            norm2: init.layer_norm(dim, NORM_EPSILON),
            sequential: Mlp::new(&init.child("mlp"), dim, dim, Activation::Gelu),
            drop,
        }
    }

    /// # Shapes
    ///
    /// `[batch, tokens, input]` to `[batch, tokens, dim]`.
    pub(super) fn forward(&self, x: Tensor<3>, pass: Pass<'_>) -> Tensor<3> {
        let Pass { phase, watch, .. } = pass;
        let normed = pass.normed(&self.norm1, x, NORM_EPSILON);
        // In f32: features are exponentials, which exceed the range of f16, and bf16 is too inexact for their sums.
        let kqv = widened(linear(&self.kqv, normed));
        let dim = kqv.dims()[2] / 3;
        let [k, q, v] = [0, 1, 2].map(|i| kqv.clone().narrow(2, i * dim, dim));
        watch.tokens(Point::Input, || v.clone());
        let mixed = pass.lower(mix(self.features(q), self.features(k), v.clone()));
        // Without drop path.
        let attention = |mixed: Tensor<3>, residual| {
            let branch = |residual| project(&self.proj, mixed, residual);
            self.dropped(branch, residual, phase.named("proj"))
        };
        let x = add_branch(v, mixed, Point::Attention, 0.0, pass, attention);

        let normed = pass.normed(&self.norm2, x.clone(), NORM_EPSILON);
        let mlp = |normed: Tensor<3>, residual| {
            let branch = |residual| self.sequential.forward(normed, residual, None);
            self.dropped(branch, residual, phase.named("mlp"))
        };
        add_branch(x, normed, Point::Mlp, 0.0, pass, mlp)
    }

    /// Positive random features.
    ///
    /// # Shapes
    ///
    /// `[batch, tokens, dim]` to `[batch, tokens, features]`.
    fn features(&self, x: Tensor<3>) -> Tensor<3> {
        let w = self.w.val();
        let features = w.dims()[0] as f64;
        let half_square = half_square(x.clone().unsqueeze_dim::<4>(1)).squeeze_dim::<3>(1);
        let exponent = linear_with(x, w.transpose(), None) - half_square;
        exponent.exp() / features.sqrt()
    }

    /// A branch with dropout, added to a residual; as it is, if there is none. A branch without dropout is added in the same operation.
    fn dropped(
        &self,
        branch: impl FnOnce(Option<Residual<3>>) -> Tensor<3>,
        residual: Option<Residual<3>>,
        phase: Phase,
    ) -> Tensor<3> {
        match (residual, Dropout::in_phase(phase, self.drop)) {
            (Some(stream), Some(dropout)) => stream.plus(dropout.apply(widened(branch(None)))),
            (residual, _) => branch(residual),
        }
    }
}

/// The values, weighted by the products of the features of queries and keys.
///
/// # Shapes
///
/// - `q`, `k`: `[batch, tokens, features]`
/// - `v` and the result: `[batch, tokens, dim]`
fn mix(q: Tensor<3>, k: Tensor<3>, v: Tensor<3>) -> Tensor<3> {
    let [q, k, v] = [q, k, v].map(|x| x.unsqueeze_dim::<4>(1));
    attend_features(q, k, v, EPSILON).squeeze_dim::<3>(1)
}
