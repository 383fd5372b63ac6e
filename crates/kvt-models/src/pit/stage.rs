//! A stage of a PiT, and its cost.

use kvt_attention::Macs;

use crate::family::cost::StageSummary;
use crate::family::transformer::Transformer;
use crate::layers::ConvSettings;

/// The sizes of a stage, for its modules and their cost.
pub(super) struct StageSize {
    pub blocks: Transformer,
    /// Makes the map of this stage from the map of the stage before.
    pub pool: Option<ConvSettings>,
    /// Tokens along a side of the previous map.
    pub before: usize,
    /// Tokens along a side of the map.
    pub grid: usize,
}

/// Halves a map, with equally many filters for each of its channels.
pub(super) fn pool(in_channels: usize, out_channels: usize) -> ConvSettings {
    let conv = ConvSettings::centred([in_channels, out_channels], 3, 2);
    conv.in_groups(in_channels)
}

impl StageSize {
    /// Size and cost of the blocks and of the pooling before them.
    pub(super) fn summary(&self, stage: usize) -> StageSummary {
        let Transformer { block, place, .. } = &self.blocks;
        let dim = block.dim;
        let (params, macs) = self.pool.map_or((0, 0), |pool| {
            let class_tokens = pool.in_channels * dim;
            let params = pool.params() + class_tokens + dim;
            let macs = pool.macs(self.before) + place.prefix * class_tokens;
            (params, macs)
        });
        let blocks = self.blocks.summary(format!("transformers.{stage}"));
        blocks.with_modules(params, Macs::linear(macs))
    }
}
