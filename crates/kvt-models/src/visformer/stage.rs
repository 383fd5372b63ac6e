//! A stage of a Visformer, and its cost.

use kvt_attention::Macs;

use crate::family::cost::StageSummary;
use crate::family::transformer::Transformer;
use crate::layers::ConvSettings;

/// Groups of the convolution within an MLP.
pub(super) const GROUPS: usize = 8;

/// The sizes of a stage, for its modules and their cost.
#[derive(Clone, Debug)]
pub(super) struct StageSize {
    /// Channels of a token.
    pub dim: usize,
    /// Hidden channels of the MLP.
    pub hidden: usize,
    /// Blocks.
    pub depth: usize,
    /// The blocks with attention; without it, there is a convolution within their MLP.
    pub attention: Option<Transformer>,
    /// Makes the map of this stage from the previous map.
    pub embed: ConvSettings,
    /// Tokens along a side of the previous map.
    pub before: usize,
    /// Tokens along a side of the map.
    pub grid: usize,
}

/// The convolution within an MLP.
pub(super) fn spatial(channels: usize) -> ConvSettings {
    let conv = ConvSettings::centred([channels; 2], 3, 1);
    conv.in_groups(GROUPS).without_bias()
}

impl StageSize {
    /// Size and cost of the blocks, and of the patch embedding and the positions before them.
    pub(super) fn summary(&self, stage: usize) -> StageSummary {
        let (dim, tokens) = (self.dim, self.grid.pow(2));
        let norm = 2 * dim;
        let mut convolutions = vec![
            ConvSettings::pointwise(dim, self.hidden),
            ConvSettings::pointwise(self.hidden, dim),
        ];
        let norms = match &self.attention {
            None => {
                convolutions.push(spatial(self.hidden));
                norm
            }
            Some(_) => {
                convolutions.extend([
                    ConvSettings::pointwise(dim, 3 * dim),
                    ConvSettings::pointwise(dim, dim),
                ]);
                2 * norm
            }
        };
        let params: usize = convolutions.iter().map(ConvSettings::params).sum();
        let macs: usize = convolutions.iter().map(|conv| conv.macs(self.grid)).sum();
        let size = (params + norms, Macs::linear(macs));
        let name = format!("stage{}", stage + 1);
        let blocks = match &self.attention {
            None => StageSummary::without_attention(name, self.depth, size, tokens),
            Some(blocks) => blocks.summary_of(name, size, 1),
        };
        let embed = self.embed.params() + norm + tokens * dim;
        blocks.with_modules(embed, Macs::linear(self.embed.macs(self.before)))
    }
}
