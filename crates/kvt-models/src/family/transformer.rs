//! Transformer blocks of the same sizes, one after another.

use kvt_attention::{AttentionConfig, Macs, MultiHeadAttention, Place};

use crate::error::ModelError;
use crate::family::cost::{BlockSize, StageSummary};
use crate::family::places::softmax_only;
use crate::family::validate;
use crate::layers::{Block, BlockKind, Init};

/// Transformer blocks of a stage, or of a model that has one stage.
#[derive(Clone, Debug)]
pub(crate) struct Transformer {
    /// The sizes of a block.
    pub block: BlockSize,
    /// Blocks.
    pub depth: usize,
    /// The attention of the blocks.
    pub attention: AttentionConfig,
    /// The place of attention in a block.
    pub place: Place,
}

impl Transformer {
    /// The same at a place that takes only softmax attention; `reason` says what is there, as the end of "cannot be used where".
    pub(crate) fn softmax_only(mut self, reason: &'static str) -> Self {
        self.place.softmax_only = softmax_only(reason);
        self
    }

    /// Refuses blocks that cannot be made. `mlp_ratio` is what gave their MLPs their size.
    pub(crate) fn validate(&self, mlp_ratio: f64) -> Result<(), ModelError> {
        let (dim, heads) = (self.block.dim, self.place.heads);
        validate::sizes(&[
            ("embed_dim", dim),
            ("depth", self.depth),
            ("num_heads", heads),
        ])?;
        validate::whole_heads(("embed_dim", dim), ("num_heads", heads))?;
        validate::mlp(self.block.hidden, mlp_ratio)?;
        Ok(self.attention.validate_at(&self.place)?)
    }

    /// Size and cost of the blocks.
    pub(crate) fn summary(&self, name: impl Into<String>) -> StageSummary {
        let size = (self.block.params(), self.block.macs(self.place.queries));
        self.summary_of(name, size, 1)
    }

    /// The same if a block without its attention has so many parameters and operations, and an attention at each of `places` places.
    pub(crate) fn summary_of(
        &self,
        name: impl Into<String>,
        size: (usize, Macs),
        places: usize,
    ) -> StageSummary {
        let (depth, attention) = (self.depth, &self.attention);
        StageSummary::new(name, depth, size, attention, &self.place, places)
    }

    /// The blocks with multi-head attention, one for each rate of drop path.
    pub(crate) fn build(
        &self,
        init: &Init<'_>,
        kind: BlockKind,
        rates: impl IntoIterator<Item = f64>,
    ) -> Vec<Block<MultiHeadAttention>> {
        Block::stack(init, kind, self.block, rates, |init, _| {
            MultiHeadAttention::new(init, &self.attention, self.place, self.block.qkv_bias)
        })
    }
}
