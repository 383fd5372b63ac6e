//! A stage of a PiT, and its cost.

use kvt_attention::{Macs, Place};

use crate::family::cost::{BlockSize, StageSummary};
use crate::family::stages::StageConfig;
use crate::layers::ConvSettings;

/// The sizes of a stage, for its modules and their cost.
pub(super) struct StageSize {
    pub block: BlockSize,
    pub config: StageConfig,
    /// The place of attention in the blocks.
    pub place: Place,
    /// Makes the map of this stage from the map of the stage before.
    pub pool: Option<ConvSettings>,
    /// Tokens along a side of the previous map.
    pub before: usize,
    /// Tokens along a side of the map.
    pub grid: usize,
}

/// Halves a map, with equally many filters for each of its channels.
pub(super) fn pool(in_channels: usize, out_channels: usize) -> ConvSettings {
    ConvSettings {
        stride: 2,
        padding: 1,
        groups: in_channels,
        ..ConvSettings::patches(in_channels, out_channels, 3)
    }
}

impl StageSize {
    /// Size and cost of the blocks and of the pooling before them.
    pub(super) fn summary(&self, stage: usize) -> StageSummary {
        let dim = self.block.dim;
        let (params, macs) = self.pool.map_or((0, 0), |pool| {
            let class_tokens = pool.in_channels * dim;
            let params = pool.params() + class_tokens + dim;
            let macs = pool.macs(self.before) + self.place.prefix * class_tokens;
            (params, macs)
        });
        StageSummary::of_blocks(
            format!("transformers.{stage}"),
            self.config.depth,
            self.block,
            &self.config.attention,
            &self.place,
        )
        .with_modules(params, Macs::linear(macs))
    }
}
