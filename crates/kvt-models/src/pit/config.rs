//! Sizes of a PiT, and their cost.

use kvt_attention::Macs;

use super::stage::{StageSize, pool};
use crate::error::ModelError;
use crate::family::FamilyConfig;
use crate::family::common::CommonConfig;
use crate::family::cost::StageSummary;
use crate::family::model_keys::{ModelOverrides, per_stage};
use crate::family::stages::{NamedSize, StagesConfig};
use crate::family::validate;
use crate::head::Classifier;
use crate::layers::{ConvSettings, Init};
use crate::weights::pos_embed::{Bicubic, Form};

/// Sizes and settings of a PiT.
#[derive(Clone, Debug, PartialEq)]
pub struct PitConfig {
    /// What PiT shares with the other families.
    pub common: CommonConfig,
    /// Side of a patch in pixels.
    pub patch_size: usize,
    /// Pixels from one patch to the next. Remainders of the image at its right and bottom are ignored.
    pub patch_stride: usize,
    /// Channels of a token in each stage; a multiple of the channels of the stage before.
    pub embed_dim: Vec<usize>,
    /// Whether there are a distillation token and its head.
    pub distilled: bool,
    /// Blocks, heads and attention of each stage.
    pub stages: StagesConfig,
}

const SIZES: [NamedSize; 4] = [
    ("ti", &[64, 128, 256], &[2, 6, 4], &[2, 4, 8]),
    ("xs", &[96, 192, 384], &[2, 6, 4], &[2, 4, 8]),
    ("s", &[144, 288, 576], &[2, 6, 4], &[3, 6, 12]),
    ("b", &[256, 512, 1024], &[3, 6, 4], &[4, 8, 16]),
];

/// Patch size and stride of a named size.
fn patch(size: &str) -> [usize; 2] {
    if size == "b" { [14, 7] } else { [16, 8] }
}

impl PitConfig {
    /// Patches along a side of the image.
    pub fn grid_size(&self) -> usize {
        self.patch_embed().output_size(self.common.side())
    }

    /// Tokens before the map: the class token, and the distillation token.
    pub fn num_prefix_tokens(&self) -> usize {
        1 + usize::from(self.distilled)
    }

    /// The convolution from images to the first map.
    pub(super) fn patch_embed(&self) -> ConvSettings {
        let dim = self.embed_dim.first().copied().unwrap_or(0);
        let patches = ConvSettings::patches(self.common.in_chans, dim, self.patch_size);
        patches.moving(self.patch_stride, 0)
    }

    /// The stages, first to last.
    pub(super) fn stages(&self) -> Vec<StageSize> {
        let (mut channels, mut before) = (None, self.grid_size());
        let lists = self.embed_dim.iter().zip(self.stages.iter());
        let stages = lists.map(|(&dim, (depth, heads, attention))| {
            let pool = channels.map(|channels| pool(channels, dim));
            let grid = pool.map_or(before, |pool| pool.output_size(before));
            let (sizes, prefix) = ([dim, depth, heads], self.num_prefix_tokens());
            let size = StageSize {
                blocks: self.common.transformer(sizes, attention, prefix, [grid; 2]),
                pool,
                before,
                grid,
            };
            (channels, before) = (Some(dim), grid);
            size
        });
        stages.collect()
    }
}

impl FamilyConfig for PitConfig {
    fn named() -> Vec<Self> {
        let configs = [false, true].into_iter().flat_map(|distilled| {
            SIZES.map(|(size, embed_dim, depth, num_heads)| {
                let [patch_size, patch_stride] = patch(size);
                Self {
                    common: CommonConfig::imagenet(224),
                    patch_size,
                    patch_stride,
                    embed_dim: embed_dim.to_vec(),
                    distilled,
                    stages: StagesConfig::dense(depth, num_heads),
                }
            })
        });
        configs.collect()
    }

    fn with(mut self, overrides: &ModelOverrides) -> Result<Self, ModelError> {
        let count = overrides.stages(self.stages.count());
        self.embed_dim = per_stage("embed_dim", &overrides.embed_dim, &self.embed_dim, count)?;
        self.stages = self.stages.with(overrides, count)?;
        self.patch_size = overrides.patch_size.unwrap_or(self.patch_size);
        self.patch_stride = overrides.patch_stride.unwrap_or(self.patch_stride);
        Ok(self)
    }

    fn validate(&self) -> Result<(), ModelError> {
        self.stages.validate()?;
        validate::sizes(&[
            ("patch_size", self.patch_size),
            ("patch_stride", self.patch_stride),
        ])?;
        validate::per_stage("embed_dim", self.embed_dim.len(), self.stages.count())?;
        let (least, side) = (self.patch_size, self.common.side());
        self.common
            .at_least(least, side >= least, "PiT with such patches")?;
        let mut before = 1;
        for (i, stage) in self.stages().iter().enumerate() {
            validate::tokens(stage.grid)?;
            let dim = stage.blocks.block.dim;
            let valid = stage.blocks.validate(self.common.mlp_ratio);
            let called = format!("{before}, that of the stage before");
            let reason = "pooling makes the same number of channels from each";
            let valid = valid
                .and_then(|()| validate::multiple(("embed_dim", dim), (before, called), reason));
            valid.map_err(|error| error.in_stage(format!("transformers.{i}")))?;
            before = dim;
        }
        Ok(())
    }

    fn input_sides(&self) -> [usize; 2] {
        [self.patch_size, 1]
    }

    fn name(&self) -> String {
        let size = self.stages.size_name(&self.embed_dim, &SIZES);
        let own = [self.patch_size, self.patch_stride];
        let is_named = SIZES.iter().any(|(name, ..)| *name == size);
        let patch = match own {
            own if is_named && own == patch(&size) => String::new(),
            [size, stride] => format!("_patch{size}_stride{stride}"),
        };
        let distilled = if self.distilled { "_distilled" } else { "" };
        format!("pit_{size}{distilled}{patch}_{}", self.common.side())
    }

    fn num_features(&self) -> usize {
        self.embed_dim.last().copied().unwrap_or(0)
    }

    fn cost(&self) -> (Vec<StageSummary>, usize, Macs) {
        let stages = self.stages().into_iter().enumerate();
        let stages = stages.map(|(i, stage)| stage.summary(i)).collect();
        let patch_embed = self.patch_embed();
        let tokens = self.num_prefix_tokens() + self.grid_size().pow(2);
        let params = patch_embed.params() + tokens * patch_embed.out_channels;
        let macs = Macs::linear(patch_embed.macs(self.common.side()));
        (stages, params, macs)
    }

    fn is_distilled(&self) -> bool {
        self.distilled
    }

    fn classifier(&self, init: &Init<'_>) -> Classifier {
        let init = init.with_uniform_linears();
        let sizes = [self.num_features(), self.common.num_classes];
        let outputs = ("head", self.distilled.then_some("head_dist"));
        Classifier::init(&init, outputs, sizes)
    }

    fn positions(&self, name: &str) -> Option<(Bicubic, [usize; 2], Form)> {
        let grid = [self.grid_size(); 2];
        (name == "pos_embed").then_some((Bicubic::Antialiased, grid, Form::ChannelsFirst))
    }
}

#[cfg(test)]
mod tests;
