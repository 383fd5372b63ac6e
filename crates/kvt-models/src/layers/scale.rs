//! Layer scale: each channel of a residual branch is multiplied by a learned factor (Touvron et al. 2021,
//! [*CaiT*](https://arxiv.org/abs/2103.17239)).

use std::borrow::Cow;

use burn::module::{Module, Param};
use burn::nn::Linear;
use burn::tensor::Tensor;
use kvt_attention::{Law, ParamInit};

use super::Init;

/// Where timm keeps the factors of a block, and what they are at first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ScaleKind {
    /// `ls1.gamma` and `ls2.gamma`.
    Module(f64),
    /// `gamma_1` and `gamma_2`.
    Plain(f64),
}

/// The factors in a module of their own.
#[derive(Module, Debug)]
pub(crate) struct LayerScale {
    gamma: Param<Tensor<1>>,
}

/// A factor for each channel of one branch. Its fields are those of a block, of which one is there.
pub(crate) type Scale = (Option<LayerScale>, Option<Param<Tensor<1>>>);

/// The factors of branch number `branch`, 1 or 2, of `dim` channels.
pub(crate) fn scale(init: &Init<'_>, kind: Option<ScaleKind>, branch: usize, dim: usize) -> Scale {
    let factors = |init: &Init<'_>, name: &str, value: f64| {
        init.param(name, [dim], Law::Constant(value as f32))
    };
    match kind {
        None => (None, None),
        Some(ScaleKind::Module(value)) => {
            let gamma = factors(&init.child(&format!("ls{branch}")), "gamma", value);
            (Some(LayerScale { gamma }), None)
        }
        Some(ScaleKind::Plain(value)) => {
            (None, Some(factors(init, &format!("gamma_{branch}"), value)))
        }
    }
}

/// The factors of a branch, `[dim]`.
pub(crate) fn factors(
    module: &Option<LayerScale>,
    plain: &Option<Param<Tensor<1>>>,
) -> Option<Tensor<1>> {
    let module = module.as_ref().map(|scale| &scale.gamma);
    module.or(plain.as_ref()).map(Param::val)
}

/// A linear layer whose outputs are multiplied by factors: its weights are, so that what follows it stays one operation with it.
/// Gradients reach both.
pub(crate) fn scaled(layer: &Linear, factors: Option<Tensor<1>>) -> Cow<'_, Linear> {
    let Some(factors) = factors else {
        return Cow::Borrowed(layer);
    };
    let bias = layer.bias.as_ref().map(|bias| {
        let scaled = bias.val() * factors.clone();
        Param::initialized(bias.id, scaled)
    });
    let weight = layer.weight.val() * factors.unsqueeze::<2>();
    Cow::Owned(Linear {
        weight: Param::initialized(layer.weight.id, weight),
        bias,
    })
}
