//! A stage of a CvT, and its cost.

use kvt_attention::{Macs, Place};

use crate::family::cost::{BlockSize, StageSummary};
use crate::family::stages::StageConfig;
use crate::layers::ConvSettings;

/// The sizes of a stage, for its modules and their cost.
#[derive(Clone, Debug)]
pub(super) struct StageSize {
    pub block: BlockSize,
    pub config: StageConfig,
    pub attn_drop: f64,
    /// Makes the map of this stage from the map of the stage before.
    pub embed: ConvSettings,
    /// Side of the map that the embedding sees.
    pub before: usize,
    /// Tokens along a side of the map.
    pub grid: usize,
    pub kv_stride: usize,
    /// 1 if there is a class token.
    pub prefix: usize,
}

impl StageSize {
    /// The convolution before the projection to queries, or to keys and values.
    pub(super) fn projection(&self, stride: usize) -> ConvSettings {
        let dim = self.block.dim;
        ConvSettings {
            kernel: 3,
            stride,
            padding: 1,
            groups: dim,
            ..ConvSettings::pointwise(dim, dim)
        }
    }

    /// The place of attention in the blocks.
    pub(super) fn place(&self) -> Place {
        self.place_on(self.grid)
    }

    /// The place on a map of another side, for a larger image.
    pub(super) fn place_on(&self, grid: usize) -> Place {
        let keys = self.projection(self.kv_stride).output_size(grid);
        let tokens = self.prefix + grid.pow(2);
        Place {
            keys: self.prefix + keys.pow(2),
            prefix: self.prefix,
            grid: Some([grid; 2]),
            dropout: self.attn_drop,
            ..Place::new(tokens, self.block.dim, self.config.num_heads)
        }
    }

    /// Size and cost of the blocks and of the embedding before them.
    pub(super) fn summary(&self, stage: usize) -> StageSummary {
        let BlockSize { dim, hidden, .. } = self.block;
        let (queries, keys_and_values) = (self.projection(1), self.projection(self.kv_stride));
        let place = self.place();
        let (tokens, keys) = (place.queries, place.keys);

        let norm = 2 * dim;
        let projections = 3 * (queries.params() + norm);
        let embed = self.embed.params() + norm + self.prefix * dim;
        let convolutions = queries.macs(self.grid) + 2 * keys_and_values.macs(self.grid);
        let linear = 2 * (tokens + keys) * dim.pow(2) + 2 * tokens * dim * hidden;
        let block = (
            self.block.params() + projections,
            Macs::linear(convolutions + linear),
        );
        let (name, depth) = (format!("stage{stage}"), self.config.depth);
        StageSummary::new(name, depth, block, &self.config.attention, &place, 1)
            .with_modules(embed, Macs::linear(self.embed.macs(self.before)))
    }
}
