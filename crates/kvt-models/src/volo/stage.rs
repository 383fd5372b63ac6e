//! The parts of a VOLO, and their cost.

use kvt_attention::Macs;

use super::POOLING;
use super::outlook::{AREA, WINDOWS};
use crate::family::cost::{BlockSize, StageSummary};
use crate::family::transformer::Transformer;

/// The stage of outlookers.
#[derive(Clone, Debug)]
pub(super) struct OutlookSize {
    pub block: BlockSize,
    pub depth: usize,
    pub num_heads: usize,
    pub attn_drop: f64,
    /// Tokens along a side of the fine map.
    pub grid: usize,
}

/// A stage of transformer blocks.
#[derive(Clone, Debug)]
pub(super) struct StageSize {
    pub blocks: Transformer,
    /// Channels of the map that is coarsened before the first of these stages.
    pub before: Option<usize>,
}

impl OutlookSize {
    pub(super) fn summary(&self, name: String) -> StageSummary {
        let BlockSize { dim, hidden, .. } = self.block;
        let tokens = self.grid.pow(2);
        let [windows, _] = WINDOWS.positions([self.grid; 2]);
        let windows = windows.pow(2);
        let weights = self.num_heads * AREA.pow(2);
        // A value and a projection instead of q, k, v and a projection in other blocks.
        let bias = if self.block.qkv_bias { 2 * dim } else { 0 };
        let params = self.block.params() - 2 * dim.pow(2) - bias + (dim + 1) * weights;
        let linear = tokens * (2 * dim.pow(2) + 2 * dim * hidden) + windows * dim * weights;
        let macs = Macs::linear(linear) + Macs::attention(windows * AREA.pow(2) * dim);
        StageSummary::without_attention(name, self.depth, (params, macs), tokens)
    }
}

impl StageSize {
    /// Size and cost of the blocks, and of the coarser map before them.
    pub(super) fn summary(&self, name: String) -> StageSummary {
        let (place, dim) = (self.blocks.place, self.blocks.block.dim);
        let inputs = self.before.map_or(0, |channels| channels * POOLING.pow(2));
        let bias = if self.before.is_some() { dim } else { 0 };
        let macs = Macs::linear(place.queries * inputs * dim);
        let blocks = self.blocks.summary(name);
        blocks.with_modules(inputs * dim + bias, macs)
    }
}

/// Size and cost of the blocks of the class token.
pub(super) fn class_summary(name: &str, class: &Transformer) -> StageSummary {
    let (BlockSize { dim, hidden, .. }, place) = (class.block, class.place);
    let linear = (2 + 2 * place.keys) * dim.pow(2) + 2 * dim * hidden;
    let size = (class.block.params(), Macs::linear(linear));
    StageSummary {
        takes_attention: false,
        ..StageSummary::new(name, class.depth, size, &class.attention, &place, 1)
    }
}
