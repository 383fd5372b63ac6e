//! A stage of a CvT, and its cost.

use kvt_attention::{Macs, Place};

use crate::family::cost::{BlockSize, StageSummary};
use crate::family::transformer::Transformer;
use crate::layers::ConvSettings;

/// The sizes of a stage, for its modules and their cost.
#[derive(Clone, Debug)]
pub(super) struct StageSize {
    /// With a class token, if its attention has one before the map.
    pub blocks: Transformer,
    /// Makes the map of this stage from the map of the stage before.
    pub embed: ConvSettings,
    /// Side of the map that the embedding sees.
    pub before: usize,
    /// Tokens along a side of the map.
    pub grid: usize,
    pub kv_stride: usize,
}

impl StageSize {
    /// The convolution before the projection to queries, or to keys and values.
    pub(super) fn projection(&self, stride: usize) -> ConvSettings {
        let dim = self.blocks.block.dim;
        let conv = ConvSettings::centred([dim; 2], 3, stride);
        conv.in_groups(dim).without_bias()
    }

    /// The blocks with the keys that their convolutions make of a map with sides of `grid` tokens.
    pub(super) fn blocks_on(&self, grid: usize) -> Transformer {
        let keys = self.projection(self.kv_stride).output_size(grid);
        let place = self.blocks.place;
        Transformer {
            place: Place {
                queries: place.prefix + grid.pow(2),
                keys: place.prefix + keys.pow(2),
                grid: Some([grid; 2]),
                ..place
            },
            ..self.blocks.clone()
        }
    }

    /// Size and cost of the blocks and of the embedding before them.
    pub(super) fn summary(&self, stage: usize) -> StageSummary {
        let (block, place) = (self.blocks.block, self.blocks.place);
        let BlockSize { dim, hidden, .. } = block;
        let (queries, keys_and_values) = (self.projection(1), self.projection(self.kv_stride));
        let (tokens, keys) = (place.queries, place.keys);

        let norm = 2 * dim;
        let projections = 3 * (queries.params() + norm);
        let embed = self.embed.params() + norm + place.prefix * dim;
        let convolutions = queries.macs(self.grid) + 2 * keys_and_values.macs(self.grid);
        let linear = 2 * (tokens + keys) * dim.pow(2) + 2 * tokens * dim * hidden;
        let size = (
            block.params() + projections,
            Macs::linear(convolutions + linear),
        );
        let blocks = self.blocks.summary_of(format!("stage{stage}"), size, 1);
        blocks.with_modules(embed, Macs::linear(self.embed.macs(self.before)))
    }
}
