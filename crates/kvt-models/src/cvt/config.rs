//! Sizes of a CvT, and their cost.

use burn::nn::Linear;
use kvt_attention::Macs;

use super::stage::StageSize;
use crate::error::ModelError;
use crate::family::FamilyConfig;
use crate::family::common::{CommonConfig, unusual};
use crate::family::cost::StageSummary;
use crate::family::model_keys::{ModelOverrides, per_stage};
use crate::family::stages::{NamedSize, StagesConfig};
use crate::family::validate;
use crate::head::Classifier;
use crate::layers::{ConvSettings, Init};

/// Sizes and settings of a CvT.
#[derive(Clone, Debug, PartialEq)]
pub struct CvtConfig {
    /// What CvT shares with the other families.
    pub common: CommonConfig,
    /// Side of a patch in pixels: the kernel of the first embedding, which is padded by a third of
    /// it. The kernels of the other stages are 3 wide.
    pub patch_size: usize,
    /// Pixels from one patch to the next. The other stages halve the map.
    pub patch_stride: usize,
    /// Channels of a token in each stage.
    pub embed_dim: Vec<usize>,
    /// Stride of the convolution that makes keys and values: at 2 there is one key per four tokens.
    pub kv_stride: usize,
    /// Blocks, heads and attention of each stage.
    pub stages: StagesConfig,
}

const SIZES: [NamedSize; 3] = [
    ("13", &[64, 192, 384], &[1, 2, 10], &[1, 3, 6]),
    ("21", &[64, 192, 384], &[1, 4, 16], &[1, 3, 6]),
    ("w24", &[192, 768, 1024], &[2, 2, 20], &[3, 12, 16]),
];
/// Kernel and stride of the first embedding that names do not mention.
const PATCH: [usize; 2] = [7, 4];
const KV_STRIDE: usize = 2;

impl CvtConfig {
    /// The stages, first to last.
    pub(super) fn stages(&self) -> Vec<StageSize> {
        let last = self.stages.count().saturating_sub(1);
        let (mut channels, mut before) = (self.common.in_chans, self.common.side());
        let lists = self.embed_dim.iter().zip(self.stages.iter());
        let stages = lists
            .enumerate()
            .map(|(stage, (&dim, (depth, heads, attention)))| {
                let (kernel, stride) = match stage {
                    0 => (self.patch_size, self.patch_stride),
                    _ => (3, 2),
                };
                // The original's padding is 2 for 7, and 1 for 3.
                let embed = ConvSettings::patches(channels, dim, kernel).moving(stride, kernel / 3);
                let (prefix, grid) = (usize::from(stage == last), embed.output_size(before));
                let sizes = [dim, depth, heads];
                let mut size = StageSize {
                    blocks: self.common.transformer(sizes, attention, prefix, [grid; 2]),
                    embed,
                    before,
                    grid,
                    kv_stride: self.kv_stride,
                };
                size.blocks = size.blocks_on(grid);
                (channels, before) = (dim, grid);
                size
            });
        stages.collect()
    }
}

impl FamilyConfig for CvtConfig {
    fn named() -> Vec<Self> {
        let configs = [224, 384].into_iter().flat_map(|img_size| {
            SIZES.map(|(_, embed_dim, depth, num_heads)| Self {
                common: CommonConfig::imagenet(img_size),
                patch_size: PATCH[0],
                patch_stride: PATCH[1],
                embed_dim: embed_dim.to_vec(),
                kv_stride: KV_STRIDE,
                stages: StagesConfig::dense(depth, num_heads),
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
        self.kv_stride = overrides.kv_stride.unwrap_or(self.kv_stride);
        Ok(self)
    }

    fn validate(&self) -> Result<(), ModelError> {
        self.stages.validate()?;
        validate::sizes(&[
            ("patch_size", self.patch_size),
            ("patch_stride", self.patch_stride),
            ("kv_stride", self.kv_stride),
        ])?;
        validate::per_stage("embed_dim", self.embed_dim.len(), self.stages.count())?;
        for (i, stage) in self.stages().iter().enumerate() {
            // Only the first map can be too small: the other embeddings map one token to one.
            let least = stage.embed.kernel - 2 * stage.embed.padding;
            self.common
                .at_least(least, stage.grid > 0, "CvT with such patches")?;
            validate::tokens(stage.grid)?;
            // If the whole map is one token, there are as many keys as queries, whatever the stride, which does not
            // hold for a larger image.
            let larger = (stage.grid == 1).then(|| stage.blocks_on(2));
            for blocks in [&stage.blocks].into_iter().chain(&larger) {
                let valid = blocks.validate(self.common.mlp_ratio);
                valid.map_err(|error| error.in_stage(format!("stage{i}")))?;
            }
        }
        Ok(())
    }

    fn input_sides(&self) -> [usize; 2] {
        // Only the first map can be too small: the other embeddings map one token to one.
        [self.patch_size - 2 * (self.patch_size / 3), 1]
    }

    /// timm has no CvT: the original's name, with the image size if it is not 224.
    fn name(&self) -> String {
        let size = self.stages.size_name(&self.embed_dim, &SIZES);
        let patch = match [self.patch_size, self.patch_stride] {
            PATCH => String::new(),
            [size, stride] => format!("_patch{size}_stride{stride}"),
        };
        let kv = unusual("kv", &[self.kv_stride], &[KV_STRIDE]);
        format!("cvt_{size}{patch}{kv}{}", self.common.size_suffix())
    }

    fn num_features(&self) -> usize {
        self.embed_dim.last().copied().unwrap_or(0)
    }

    fn cost(&self) -> (Vec<StageSummary>, usize, Macs) {
        let stages = self.stages().into_iter().enumerate();
        let stages = stages.map(|(i, stage)| stage.summary(i)).collect();
        (stages, 0, Macs::default())
    }

    fn classifier(&self, init: &Init<'_>) -> Classifier {
        let (features, classes) = (self.num_features(), self.common.num_classes);
        let head = init.child("head");
        // The original leaves only this bias at PyTorch's initialisation.
        let bias = head.uniform("bias", [classes], 1.0 / (features as f32).sqrt());
        let class = Linear {
            weight: head.trunc_normal("weight", [features, classes]),
            bias: Some(bias),
        };
        Classifier::new(class, None)
    }
}

#[cfg(test)]
mod tests;
