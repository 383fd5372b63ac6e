//! Sizes of a Visformer, and their cost.

use kvt_attention::{AttentionConfig, Macs};

use super::stage::{GROUPS, StageSize};
use crate::error::ModelError;
use crate::family::FamilyConfig;
use crate::family::blocks::BlockGroup;
use crate::family::common::{CommonConfig, joined, unusual};
use crate::family::cost::StageSummary;
use crate::family::model_keys::{ModelOverrides, each};
use crate::family::validate;
use crate::layers::ConvSettings;
use crate::weights::pos_embed::{Bicubic, Form};

/// Sizes and settings of a Visformer.
#[derive(Clone, Debug, PartialEq)]
pub struct VisformerConfig {
    /// What Visformer shares with the other families; `qkv_bias` is never set. `mlp_ratio` is for `stage2` and
    /// `stage3`.
    pub common: CommonConfig,
    /// Channels of the stem.
    pub init_channels: usize,
    /// Strides of the stem, 0 for no stem, and of the patch embedding of each stage.
    pub strides: [usize; 4],
    /// Channels of a token in each stage.
    pub embed_dim: [usize; 3],
    /// Blocks of each stage.
    pub depth: [usize; 3],
    /// Attention heads of `stage2` and `stage3`; each divides the channels.
    pub num_heads: [usize; 2],
    /// The attention of `stage2` and `stage3`.
    pub attention: [AttentionConfig; 2],
}

/// The named sizes: channels of the stem and of the second stage, heads.
const SIZES: [(&str, usize, usize, usize); 2] = [("tiny", 16, 192, 3), ("small", 32, 384, 6)];
const DEPTH: [usize; 3] = [7, 4, 4];
const STRIDES: [usize; 4] = [2, 4, 2, 2];
/// Width of the MLP of the first stage as a multiple of its tokens.
const SPATIAL_MLP_RATIO: usize = 2;

impl VisformerConfig {
    /// The convolution before the first stage.
    pub(super) fn stem(&self) -> Option<ConvSettings> {
        let channels = [self.common.in_chans, self.init_channels];
        let conv = ConvSettings::centred(channels, 7, self.strides[0]);
        (self.strides[0] > 0).then_some(conv.without_bias())
    }

    /// The stages, first to last.
    pub(super) fn stages(&self) -> [StageSize; 3] {
        let (mut channels, mut before) = match self.stem() {
            Some(stem) => (stem.out_channels, stem.output_size(self.common.side())),
            None => (self.common.in_chans, self.common.side()),
        };
        [0, 1, 2].map(|stage: usize| {
            let (dim, depth) = (self.embed_dim[stage], self.depth[stage]);
            let embed = ConvSettings::patches(channels, dim, self.strides[stage + 1]);
            let grid = embed.output_size(before);
            let attention = stage.checked_sub(1).map(|at| {
                let sizes = [dim, depth, self.num_heads[at]];
                let blocks = self.common.transformer(sizes, &self.attention[at], 0, [grid; 2]);
                blocks.softmax_only(
                    "no other attention has been tested, as between the convolutions of a Visformer",
                )
            });
            let hidden = match &attention {
                Some(blocks) => blocks.block.hidden,
                None => SPATIAL_MLP_RATIO * dim,
            };
            let size = StageSize {
                dim,
                hidden,
                depth,
                attention,
                embed,
                before,
                grid,
            };
            (channels, before) = (dim, grid);
            size
        })
    }
}

impl FamilyConfig for VisformerConfig {
    fn named() -> Vec<Self> {
        let configs = SIZES.map(|(_, init_channels, dim, heads)| Self {
            common: CommonConfig {
                qkv_bias: false,
                ..CommonConfig::imagenet(224)
            },
            init_channels,
            strides: STRIDES,
            embed_dim: [dim / 2, dim, 2 * dim],
            depth: DEPTH,
            num_heads: [heads; 2],
            attention: [AttentionConfig::dense(), AttentionConfig::dense()],
        });
        configs.into()
    }

    fn with(mut self, overrides: &ModelOverrides) -> Result<Self, ModelError> {
        let mut attention = overrides.attentions(&self.attention, 2)?.into_iter();
        let steps = "the stem (0 for no stem) and three patch embeddings";
        self.strides = overrides.strides(self.strides, steps)?;
        let stages = "one for all, or 3, of `stage1`, `stage2` and `stage3`";
        let attending = "one for all, or 2, of `stage2` and `stage3`: `stage1` has no attention";
        self.embed_dim = each("embed_dim", &overrides.embed_dim, self.embed_dim, stages)?;
        self.depth = each("depth", &overrides.depth, self.depth, stages)?;
        self.num_heads = each("num_heads", &overrides.num_heads, self.num_heads, attending)?;
        self.attention = self.attention.map(|own| attention.next().unwrap_or(own));
        Ok(self)
    }

    fn validate(&self) -> Result<(), ModelError> {
        let [_, first, second, third] = self.strides;
        validate::sizes(&[
            ("init_channels", self.init_channels),
            ("strides", first),
            ("strides", second),
            ("strides", third),
            // The stem is optional.
            ("strides", self.strides[0].max(1)),
        ])?;
        for (i, stage) in self.stages().iter().enumerate() {
            let ([least, _], fits) = (self.input_sides(), stage.grid > 0);
            self.common
                .at_least(least, fits, "Visformer with such strides")?;
            self.validate_stage(stage)
                .map_err(|error| error.in_stage(format!("stage{}", i + 1)))?;
        }
        Ok(())
    }

    fn input_sides(&self) -> [usize; 2] {
        // So many leave a token at the end.
        let [stem, strides @ ..] = self.strides;
        let before = strides.iter().product::<usize>();
        // The stem makes a pixel of every stride, even an incomplete one.
        let room = before.saturating_sub(1).saturating_mul(stem.max(1));
        [room.saturating_add(1), 1]
    }

    fn name(&self) -> String {
        let known = SIZES.iter().find(|(_, stem, dim, heads)| {
            (self.init_channels, self.depth) == (*stem, DEPTH)
                && self.embed_dim == [dim / 2, *dim, 2 * dim]
                && self.num_heads == [*heads; 2]
        });
        let size = match known {
            Some((size, ..)) => (*size).to_owned(),
            None => format!("{}x{}", joined(&self.embed_dim), joined(&self.depth)),
        };
        let stride = unusual("stride", &self.strides, &STRIDES);
        format!("visformer_{size}{stride}{}", self.common.size_suffix())
    }

    fn num_features(&self) -> usize {
        self.embed_dim[2]
    }

    fn cost(&self) -> (Vec<StageSummary>, usize, Macs) {
        let stages = self.stages().into_iter().enumerate();
        let stages = stages.map(|(i, stage)| stage.summary(i)).collect();
        let (params, macs) = self.stem().map_or((0, 0), |stem| {
            let norm = 2 * stem.out_channels;
            (stem.params() + norm, stem.macs(self.common.side()))
        });
        (stages, params, Macs::linear(macs))
    }

    /// timm's `group_matcher`: modules that lead to a stage belong to its first block.
    fn groups(&self) -> Vec<BlockGroup> {
        let groups = (1..).zip(self.depth).map(|(stage, depth): (usize, _)| {
            let leading = ["patch_embed", "pos_embed"].map(|module| format!("{module}{stage}"));
            BlockGroup {
                name: format!("stage{stage}"),
                leading: leading.into(),
                depth,
            }
        });
        groups.collect()
    }

    fn positions(&self, name: &str) -> Option<(Bicubic, [usize; 2], Form)> {
        let stage = name.strip_prefix("pos_embed")?.parse::<usize>().ok()?;
        let grid = self.stages().get(stage.checked_sub(1)?)?.grid;
        Some((Bicubic::Antialiased, [grid; 2], Form::ChannelsFirst))
    }
}

impl VisformerConfig {
    /// Refuses a stage with invalid blocks.
    fn validate_stage(&self, stage: &StageSize) -> Result<(), ModelError> {
        validate::tokens(stage.grid)?;
        match &stage.attention {
            Some(blocks) => blocks.validate(self.common.mlp_ratio),
            None => {
                let (dim, depth) = (stage.dim, stage.depth);
                validate::sizes(&[("embed_dim", dim), ("depth", depth)])?;
                let divisor = GROUPS / SPATIAL_MLP_RATIO;
                let divisor = (divisor, divisor.to_string());
                let reason = "the convolution of its MLP has 8 groups";
                validate::multiple(("embed_dim", dim), divisor, reason)
            }
        }
    }
}

#[cfg(test)]
mod tests;
