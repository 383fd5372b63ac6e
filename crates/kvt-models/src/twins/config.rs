//! Sizes of a Twins, and their cost.

use kvt_attention::{Macs, PerStage};

use super::stage::StageSize;
use crate::error::ModelError;
use crate::family::FamilyConfig;
use crate::family::blocks::BlockGroup;
use crate::family::common::{CommonConfig, unusual};
use crate::family::cost::StageSummary;
use crate::family::model_keys::{ModelOverrides, per_stage};
use crate::family::stages::{NamedSize, StagesConfig};
use crate::family::transformer::Transformer;
use crate::family::validate;
use crate::layers::ConvSettings;

/// Sizes and settings of a Twins-SVT. Lists have one entry per stage.
#[derive(Clone, Debug, PartialEq)]
pub struct TwinsConfig {
    /// What Twins shares with the other families.
    pub common: CommonConfig,
    /// Side of a patch: in the first stage in pixels, in the others in tokens of the previous stage. Their product
    /// divides `img_size`.
    pub strides: Vec<usize>,
    /// Channels of a token.
    pub embed_dim: Vec<usize>,
    /// Side of a window in tokens, at least 2.
    pub window_size: Vec<usize>,
    /// Side of the square of tokens that make one key of the whole map.
    pub sr_ratio: Vec<usize>,
    /// Blocks, heads and attention of each stage.
    pub stages: StagesConfig,
}

const SIZES: [NamedSize; 3] = [
    (
        "small",
        &[64, 128, 256, 512],
        &[2, 2, 10, 4],
        &[2, 4, 8, 16],
    ),
    (
        "base",
        &[96, 192, 384, 768],
        &[2, 2, 18, 2],
        &[3, 6, 12, 24],
    ),
    (
        "large",
        &[128, 256, 512, 1024],
        &[2, 2, 18, 2],
        &[4, 8, 16, 32],
    ),
];
/// The settings that names do not mention.
const STRIDES: [usize; 4] = [4, 2, 2, 2];
const WINDOW_SIZE: [usize; 4] = [7; 4];
const SR_RATIO: [usize; 4] = [8, 4, 2, 1];

impl TwinsConfig {
    /// Pixels along a side of the area that becomes one token, for each stage.
    fn patches(&self) -> impl Iterator<Item = usize> {
        self.strides.iter().scan(1usize, |pixels, stride| {
            *pixels = pixels.saturating_mul(*stride);
            Some(*pixels)
        })
    }

    /// Pixels along a side of the area that becomes one token of the last stage.
    fn patch(&self) -> usize {
        self.patches().last().unwrap_or(1)
    }

    /// The stages, first to last.
    pub(super) fn stages(&self) -> impl Iterator<Item = StageSize> {
        let (mut channels, mut before) = (self.common.in_chans, self.common.side());
        let sizes = self.strides.iter().zip(&self.embed_dim);
        let attention = self.window_size.iter().zip(&self.sr_ratio);
        let lists = sizes.zip(attention).zip(self.stages.iter());
        lists.map(
            move |(((&stride, &dim), (&window_size, &sr_ratio)), (depth, heads, attention))| {
                let (sizes, window) = ([dim, depth, heads], [window_size; 2]);
                let blocks = self.common.transformer(sizes, attention, 0, window);
                let reason = "queries see the few keys of a window, as in a Twins";
                let stage = StageSize {
                    blocks: blocks.softmax_only(reason),
                    embed: ConvSettings::patches(channels, dim, stride),
                    before,
                    window_size,
                    sr_ratio,
                    dense: self.common.dense,
                };
                (channels, before) = (dim, stage.grid());
                stage
            },
        )
    }
}

impl FamilyConfig for TwinsConfig {
    fn named() -> Vec<Self> {
        let configs = SIZES.map(|(_, embed_dim, depth, num_heads)| Self {
            common: CommonConfig::imagenet(224),
            strides: STRIDES.to_vec(),
            embed_dim: embed_dim.to_vec(),
            window_size: WINDOW_SIZE.to_vec(),
            sr_ratio: SR_RATIO.to_vec(),
            stages: StagesConfig::dense(depth, num_heads),
        });
        configs.into()
    }

    fn with(mut self, overrides: &ModelOverrides) -> Result<Self, ModelError> {
        let count = overrides.stages(self.stages.count());
        let strides = overrides.strides.clone().map(PerStage::from);
        let list = |field, given, own: &[usize]| per_stage(field, given, own, count);
        self.strides = list("strides", &strides, &self.strides)?;
        self.embed_dim = list("embed_dim", &overrides.embed_dim, &self.embed_dim)?;
        self.window_size = list("window_size", &overrides.window_size, &self.window_size)?;
        self.sr_ratio = list("sr_ratio", &overrides.sr_ratio, &self.sr_ratio)?;
        self.stages = self.stages.with(overrides, count)?;
        Ok(self)
    }

    fn map_channels(&self) -> Vec<usize> {
        self.embed_dim.clone()
    }

    fn validate(&self) -> Result<(), ModelError> {
        self.stages.validate()?;
        for (field, list) in [
            ("strides", &self.strides),
            ("embed_dim", &self.embed_dim),
            ("window_size", &self.window_size),
            ("sr_ratio", &self.sr_ratio),
        ] {
            validate::per_stage(field, list.len(), self.stages.count())?;
            let sizes: Vec<_> = list.iter().map(|&size| (field, size)).collect();
            validate::sizes(&sizes)?;
        }
        let img_size = self.common.side();
        validate::whole_strides(img_size, self.patch())?;
        for (i, (stage, patch)) in self.stages().zip(self.patches()).enumerate() {
            self.validate_stage(&stage, patch)
                .map_err(|error| error.in_stage(format!("blocks.{i}")))?;
        }
        Ok(())
    }

    fn input_sides(&self) -> [usize; 2] {
        // Every stage can make a key from so many.
        let stages = self.stages().zip(self.patches());
        let global = stages.filter(|(stage, _)| stage.has_global());
        let least = global.map(|(stage, patch)| patch.saturating_mul(stage.sr_ratio));
        let least = least.max().unwrap_or(0).max(self.patch());
        match self.common.dense {
            // Convolutions drop remainders.
            Some(_) => [least, 1],
            None => [least, self.patch()],
        }
    }

    fn name(&self) -> String {
        let size = self.stages.size_name(&self.embed_dim, &SIZES);
        let strides = unusual("strides", &self.strides, &STRIDES);
        let window = unusual("window", &self.window_size, &WINDOW_SIZE);
        let sr = unusual("sr", &self.sr_ratio, &SR_RATIO);
        let suffix = self.common.size_suffix();
        format!("twins_svt_{size}{strides}{window}{sr}{suffix}")
    }

    fn num_features(&self) -> usize {
        self.embed_dim.last().copied().unwrap_or(0)
    }

    fn cost(&self) -> (Vec<StageSummary>, usize, Macs) {
        let stages = self.stages().enumerate().map(|(i, stage)| stage.summary(i));
        (stages.collect(), 0, Macs::default())
    }

    fn groups(&self) -> Vec<BlockGroup> {
        // Positions belong to the first block of their stage, as do the modules that lead to it. The first embedding
        // is before all blocks.
        let first = BlockGroup::new("patch_embeds.0", 0);
        let stages = self.stages.depth.iter().enumerate();
        let stages = stages.map(|(s, depth)| BlockGroup {
            leading: vec![format!("patch_embeds.{s}"), format!("pos_block.{s}")],
            ..BlockGroup::new(format!("blocks.{s}"), *depth)
        });
        std::iter::once(first).chain(stages).collect()
    }
}

impl TwinsConfig {
    fn validate_stage(&self, stage: &StageSize, patch: usize) -> Result<(), ModelError> {
        let (window, field) = (stage.window_size, "window_size");
        validate::within(field, window as f64, window >= 2, "at least 2 tokens")?;
        validate::tokens(stage.grid())?;
        validate::window(window, self.common.side() / self.strides[0])?;
        let fits = !stage.has_global() || stage.grid() >= stage.sr_ratio;
        let least = patch.saturating_mul(stage.sr_ratio);
        self.common
            .at_least(least, fits, "a Twins with such an `sr_ratio`")?;
        let local = Transformer {
            place: stage.local(),
            ..stage.blocks.clone()
        };
        local.validate(self.common.mlp_ratio)?;
        if stage.has_global() {
            local.attention.validate_at(&stage.global())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
