//! Sizes of a Swin, and their cost.

use burn::tensor::TensorData;
use kvt_attention::Macs;

use super::table;
use crate::error::ModelError;
use crate::family::FamilyConfig;
use crate::family::common::CommonConfig;
use crate::family::cost::StageSummary;
use crate::family::model_keys::{ModelOverrides, one};
use crate::family::stages::{NamedSize, StagesConfig};
use crate::family::transformer::Transformer;
use crate::family::validate;
use crate::head::Classifier;
use crate::layers::{Init, Windows};
use crate::weights::{StateDict, WeightsError};

const SIZES: [NamedSize; 4] = [
    ("tiny", &[96], &[2, 2, 6, 2], &[3, 6, 12, 24]),
    ("small", &[96], &[2, 2, 18, 2], &[3, 6, 12, 24]),
    ("base", &[128], &[2, 2, 18, 2], &[4, 8, 16, 32]),
    ("large", &[192], &[2, 2, 18, 2], &[6, 12, 24, 48]),
];
/// How the names of the tables of relative positions end.
const TABLE: &str = ".relative_position_bias_table";
/// More stages shrink any image to nothing, and their channels would overflow.
const MAX_STAGES: usize = 16;
/// Every block has a number for each pair of tokens of a window: 1 GiB of them in such windows.
const MAX_WINDOW: usize = 128;

/// Sizes and settings of a Swin. Lists have one entry per stage.
#[derive(Clone, Debug, PartialEq)]
pub struct SwinConfig {
    /// What Swin shares with the other families.
    pub common: CommonConfig,
    /// Side of a patch in pixels; divides `img_size`.
    pub patch_size: usize,
    /// Channels of a token in the first stage; they double from stage to stage.
    pub embed_dim: usize,
    /// Side of a window in tokens. A map that is smaller is one window.
    pub window_size: usize,
    /// Blocks, heads and attention of each stage.
    pub stages: StagesConfig,
}

/// Sizes and settings of one stage.
#[derive(Clone, Debug)]
pub(super) struct StageSize {
    /// The blocks without their tables of relative positions; the place of their attention is one window of the map.
    pub blocks: Transformer,
    /// The windows of the blocks with an even index; the others are shifted.
    pub windows: Windows,
}

impl SwinConfig {
    /// Patches along a side of the image: tokens along a side of the first stage's map.
    pub fn grid_size(&self) -> usize {
        self.common.side().checked_div(self.patch_size).unwrap_or(0)
    }

    /// The stages, first to last.
    pub(super) fn stages(&self) -> impl Iterator<Item = StageSize> {
        // A map of an odd size is padded before it is halved.
        let maps = std::iter::successors(Some(self.grid_size()), |map| Some(map.div_ceil(2)));
        let stages = self.stages.iter().zip(maps).enumerate();
        stages.map(|(stage, ((depth, heads, attention), map))| {
            let windows = Windows::new(map, self.window_size, self.common.dense);
            let (sizes, window) = ([self.embed_dim << stage, depth, heads], [windows.side; 2]);
            let blocks = self.common.transformer(sizes, attention, 0, window);
            let mut blocks = blocks.softmax_only(
                "a position bias is added to all scores, and a mask in shifted windows",
            );
            blocks.place.bias = true;
            blocks.place.mask = windows.shifted().shift() != [0; 2] || windows.hides_padding();
            StageSize { blocks, windows }
        })
    }
}

impl StageSize {
    /// Size and cost of the blocks, and of the merging of patches before them.
    fn summary(&self, stage: usize) -> StageSummary {
        let (block, windows) = (self.blocks.block, self.windows);
        let dim = block.dim;
        let count = windows.count();
        let tokens = windows.map.iter().product::<usize>();
        let table = windows.relative_positions() * self.blocks.place.heads;
        // The padding of a map is projected and attends, but does not reach the MLP.
        let padded = count * windows.area();
        let padding = Macs::linear((padded - tokens) * 4 * dim * dim);
        let size = (block.params() + table, block.macs(tokens) + padding);
        // Four tokens of half the channels: `[4 * dim / 2, dim]`.
        let (merging, merging_norm) = match stage {
            0 => (0, 0),
            _ => (2 * dim * dim, 4 * dim),
        };
        let name = format!("layers.{stage}");
        let blocks = self.blocks.summary_of(name, size, count);
        StageSummary { tokens, ..blocks }
            .with_modules(merging + merging_norm, Macs::linear(tokens * merging))
    }
}

impl FamilyConfig for SwinConfig {
    fn named() -> Vec<Self> {
        let [tiny, small, base, large] = SIZES;
        let sizes = [
            (tiny, 7, 224),
            (small, 7, 224),
            (base, 7, 224),
            (base, 12, 384),
            (large, 7, 224),
            (large, 12, 384),
        ];
        let configs = sizes.map(
            |((_, embed_dim, depth, num_heads), window_size, img_size)| Self {
                common: CommonConfig::imagenet(img_size),
                patch_size: 4,
                embed_dim: embed_dim[0],
                window_size,
                stages: StagesConfig::dense(depth, num_heads),
            },
        );
        configs.into()
    }

    fn with(mut self, overrides: &ModelOverrides) -> Result<Self, ModelError> {
        let count = overrides.stages(self.stages.count());
        self.stages = self.stages.with(overrides, count)?;
        let first = " of the first stage: it doubles from stage to stage";
        self.embed_dim = one("embed_dim", &overrides.embed_dim, self.embed_dim, first)?;
        let (all, window_size) = (" for all stages", &overrides.window_size);
        self.window_size = one("window_size", window_size, self.window_size, all)?;
        self.patch_size = overrides.patch_size.unwrap_or(self.patch_size);
        Ok(self)
    }

    fn map_channels(&self) -> Vec<usize> {
        self.stages().map(|stage| stage.blocks.block.dim).collect()
    }

    fn validate(&self) -> Result<(), ModelError> {
        self.stages.validate()?;
        validate::sizes(&[
            ("patch_size", self.patch_size),
            ("embed_dim", self.embed_dim),
            ("window_size", self.window_size),
        ])?;
        let expected = "at most 16 entries of `depth`, since every stage doubles the channels";
        let count = self.stages.count();
        validate::within(
            "number of stages",
            count as f64,
            count <= MAX_STAGES,
            expected,
        )?;
        validate::whole_patches(self.common.side(), self.patch_size)?;
        let map = self.grid_size();
        validate::tokens(map)?;
        let side = Windows::new(map, self.window_size, self.common.dense).side;
        validate::window(side, map)?;
        let (window, expected) = (
            self.window_size as f64,
            "at most 128 where the map has more tokens along a side",
        );
        validate::within("window_size", window, side <= MAX_WINDOW, expected)?;
        for (i, stage) in self.stages().enumerate() {
            // The channels double from stage to stage.
            let valid = stage.blocks.validate(self.common.mlp_ratio);
            valid.map_err(|error| error.in_stage(format!("layers.{i}")))?;
        }
        Ok(())
    }

    fn input_sides(&self) -> [usize; 2] {
        match self.common.dense {
            // Images are padded.
            Some(_) => [1, 1],
            None => [1, self.patch_size],
        }
    }

    fn name(&self) -> String {
        let size = self.stages.size_name(&[self.embed_dim], &SIZES);
        let (patch, window, img) = (self.patch_size, self.window_size, self.common.side());
        format!("swin_{size}_patch{patch}_window{window}_{img}")
    }

    fn num_features(&self) -> usize {
        self.embed_dim << self.stages.count().saturating_sub(1)
    }

    fn cost(&self) -> (Vec<StageSummary>, usize, Macs) {
        let stages = self.stages().enumerate().map(|(i, stage)| stage.summary(i));
        let patch_inputs = self.common.in_chans * self.patch_size.pow(2);
        let patches = self.grid_size().pow(2);
        // With the weight and bias of a norm.
        let params = (patch_inputs + 3) * self.embed_dim;
        let macs = Macs::linear(patches * patch_inputs * self.embed_dim);
        (stages.collect(), params, macs)
    }

    fn classifier(&self, init: &Init<'_>) -> Classifier {
        let sizes = [self.num_features(), self.common.num_classes];
        Classifier::init(&init.child("head"), ("fc", None), sizes)
    }

    /// The tables would be resized, which no official network does.
    fn check_dense(&self, weights: &StateDict) -> Result<(), WeightsError> {
        let tables = weights.iter().filter(|(name, _)| name.ends_with(TABLE));
        let windows = tables.map(|(name, table)| {
            let side = table.shape().first().map_or(0, |places| places.isqrt());
            (name, side.div_ceil(2))
        });
        let windows: Vec<(&str, usize)> = windows.collect();
        let expected = self.window_size;
        let Some(&(name, found)) = windows.iter().find(|(_, side)| *side != expected) else {
            return Ok(());
        };
        let hint = if windows.iter().all(|(_, side)| *side == found) {
            format!("set `window_size` to {found}")
        } else {
            let least = (expected * self.patch_size) << self.stages.count().saturating_sub(1);
            format!(
                "a classifier has smaller windows on maps that are smaller; take one with this window and images of at least {least} \
                 pixels"
            )
        };
        Err(WeightsError::Window {
            name: name.to_owned(),
            found,
            expected,
            hint,
        })
    }

    fn resize(&self, name: &str, shape: &[usize], weight: &TensorData) -> Option<TensorData> {
        match (name.ends_with(TABLE), shape) {
            (true, [places, _]) => table::resample(weight, places.isqrt()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
