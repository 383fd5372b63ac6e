//! A stage of a Visformer, and its cost.

use kvt_attention::{AttentionConfig, Macs, Place};

use crate::family::cost::{StageAttention, StageSummary};
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
    /// The part of the blocks besides their MLP.
    pub kind: Kind,
    /// Makes the map of this stage from the previous map.
    pub embed: ConvSettings,
    /// Tokens along a side of the previous map.
    pub before: usize,
    /// Tokens along a side of the map.
    pub grid: usize,
}

/// The part that mixes tokens.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// A convolution within the MLP.
    Convolution,
    /// Attention.
    Attention {
        attention: AttentionConfig,
        /// Its place.
        place: Place,
    },
}

/// The convolution within an MLP.
pub(super) fn spatial(channels: usize) -> ConvSettings {
    ConvSettings {
        kernel: 3,
        padding: 1,
        groups: GROUPS,
        ..ConvSettings::pointwise(channels, channels)
    }
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
        let (norms, cost, keys, mechanism) = match &self.kind {
            Kind::Convolution => {
                convolutions.push(spatial(self.hidden));
                (norm, Default::default(), 0, None)
            }
            Kind::Attention { attention, place } => {
                convolutions.extend([
                    ConvSettings::pointwise(dim, 3 * dim),
                    ConvSettings::pointwise(dim, dim),
                ]);
                let cost = attention.cost(place);
                let mechanism = StageAttention::new(attention, cost, self.depth, 1);
                (2 * norm, cost, place.keys, Some(mechanism))
            }
        };
        let params: usize = convolutions.iter().map(ConvSettings::params).sum();
        let macs: usize = convolutions.iter().map(|conv| conv.macs(self.grid)).sum();
        let embed = self.embed.params() + norm + tokens * dim;
        StageSummary {
            name: format!("stage{}", stage + 1),
            depth: self.depth,
            tokens,
            keys,
            k: cost.kept,
            takes_attention: keys > 0,
            params: self.depth * (params + norms + cost.params) + embed,
            macs: (Macs::linear(macs) + cost.macs) * self.depth
                + Macs::linear(self.embed.macs(self.before)),
            attention: mechanism,
        }
    }
}
