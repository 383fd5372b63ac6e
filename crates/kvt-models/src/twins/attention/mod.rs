//! The two attentions of a Twins.

mod global;
mod local;

use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::Tensor;

use global::GlobalAttention;
use local::LocalAttention;

use super::stage::StageSize;
use crate::layers::{Init, Pass, SelfAttention};

/// The attention of a block. The names of parameters do not show the choice.
#[expect(
    clippy::large_enum_variant,
    reason = "a handful of blocks, whose parameters are elsewhere"
)]
#[derive(Module, Debug)]
pub(super) enum GroupedAttention {
    Local(LocalAttention),
    Global(GlobalAttention),
}

impl GroupedAttention {
    /// The attention of block number `block` of a stage.
    pub(super) fn new(init: &Init<'_>, size: &StageSize, block: usize) -> Self {
        if StageSize::is_local(block) {
            Self::Local(LocalAttention::new(init, size))
        } else {
            Self::Global(GlobalAttention::new(init, size))
        }
    }
}

impl SelfAttention<3> for GroupedAttention {
    fn mix(&self, x: Tensor<3>, pass: Pass<'_>) -> Tensor<3> {
        match self {
            Self::Local(attention) => attention.mix(x, pass),
            Self::Global(attention) => attention.mix(x, pass),
        }
    }

    fn proj(&self) -> &Linear {
        match self {
            Self::Local(attention) => SelfAttention::<3>::proj(attention),
            Self::Global(attention) => SelfAttention::<3>::proj(attention),
        }
    }
}
