//! A stage of a Twins, and its cost.

use kvt_attention::{Macs, Place};

use crate::family::cost::{BlockSize, StageSummary};
use crate::family::places::softmax_only;
use crate::family::transformer::Transformer;
use crate::layers::{ConvSettings, WindowPadding, Windows};

/// The sizes of a stage, for its modules and their cost.
#[derive(Clone, Debug)]
pub(super) struct StageSize {
    /// The blocks; the place of attention in those with windows is one window.
    pub blocks: Transformer,
    /// Makes the tokens of this stage from those of the previous stage, or from pixels.
    pub embed: ConvSettings,
    /// Side of the map that the embedding sees.
    pub before: usize,
    /// Side of a window in tokens.
    pub window_size: usize,
    /// Side of the square of tokens that make a key of the whole map.
    pub sr_ratio: usize,
    /// How the backbone of a dense network treats padding.
    pub dense: Option<WindowPadding>,
}

impl StageSize {
    /// Tokens along a side of the map.
    pub(super) fn grid(&self) -> usize {
        self.embed.output_size(self.before)
    }

    /// Whether a block attends within windows.
    pub(super) fn is_local(block: usize) -> bool {
        block.is_multiple_of(2)
    }

    /// Whether there are blocks that attend to the whole map: the second block is one.
    pub(super) fn has_global(&self) -> bool {
        self.blocks.depth > 1
    }

    fn windows(&self) -> Windows {
        Windows::plain([self.grid(); 2], self.window_size)
    }

    /// Whether padding is hidden if a map does not divide into windows: in a classifier, dense attention gives it
    /// weight, as in timm.
    pub(super) fn hides_padding(&self) -> bool {
        match self.dense {
            Some(padding) => padding == WindowPadding::Hidden,
            None => {
                let place = self.blocks.place;
                self.blocks.attention.cost(&place).kept < place.keys
            }
        }
    }

    /// The place of attention in the blocks with windows: one window.
    pub(super) fn local(&self) -> Place {
        let is_padded = !self.grid().is_multiple_of(self.window_size);
        Place {
            mask: is_padded && self.hides_padding(),
            ..self.blocks.place
        }
    }

    /// The place of attention in the blocks that see the whole map.
    pub(super) fn global(&self) -> Place {
        let grid = self.grid();
        Place {
            queries: grid.pow(2),
            keys: (grid / self.sr_ratio).pow(2),
            grid: Some([grid; 2]),
            softmax_only: softmax_only("each key represents a square of tokens, as in a Twins"),
            ..self.blocks.place
        }
    }

    /// The convolution that makes the tokens from which keys and values of the whole map are made; `None` if these
    /// are all tokens.
    pub(super) fn reduction(&self) -> Option<ConvSettings> {
        let dim = self.blocks.block.dim;
        (self.sr_ratio > 1).then(|| ConvSettings::patches(dim, dim, self.sr_ratio))
    }

    /// The convolution that gives tokens their positions, each channel by itself.
    pub(super) fn position(&self) -> ConvSettings {
        let dim = self.blocks.block.dim;
        ConvSettings::centred([dim; 2], 3, 1).in_groups(dim)
    }

    /// Size and cost of the blocks, of the embedding before them, and of the positions. `keys` and `k` are those of
    /// the kind of blocks with more keys.
    pub(super) fn summary(&self, stage: usize) -> StageSummary {
        let (block, depth, kind) = (self.blocks.block, self.blocks.depth, &self.blocks.attention);
        let BlockSize { dim, hidden, .. } = block;
        let (grid, windows) = (self.grid(), self.windows());
        let tokens = grid.pow(2);

        // The padding of a map becomes queries, keys and values, but nothing else.
        let padding = windows.count() * windows.area() - tokens;
        let local = (
            block.params(),
            block.macs(tokens) + Macs::linear(padding * 3 * dim.pow(2)),
        );
        let (locals, globals, place) = (depth.div_ceil(2), depth / 2, self.local());
        let name = format!("blocks.{stage}");
        let local = StageSummary::new(name, locals, local, kind, &place, windows.count());
        let outside = self.embed.params() + 2 * dim + self.position().params();
        let outside_macs = self.embed.macs(self.before) + self.position().macs(grid);
        let local = StageSummary {
            depth,
            tokens,
            ..local
        };
        let mut summary = local.with_modules(outside, Macs::linear(outside_macs));
        if self.has_global() {
            let (place, reduction) = (self.global(), self.reduction());
            let linear = 2 * (tokens + place.keys) * dim.pow(2) + 2 * tokens * dim * hidden;
            let convolution = reduction.map_or(0, |conv| conv.macs(grid));
            let sub_sampling = reduction.map_or(0, |conv| conv.params() + 2 * dim);
            let global = (
                block.params() + sub_sampling,
                Macs::linear(linear + convolution),
            );
            let global = StageSummary::new("", globals, global, kind, &place, 1);
            summary = summary.with_modules(global.params, global.macs);
            let both = summary.attention.zip(global.attention);
            summary.attention = both.map(|(local, global)| local.with(global));
            if global.keys > summary.keys {
                (summary.keys, summary.k) = (global.keys, global.k);
            }
        }
        summary
    }
}
