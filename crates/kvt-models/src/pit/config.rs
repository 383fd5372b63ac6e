//! Sizes of a PiT, and what they cost.

use kvt_attention::Attention;

use super::Pit;
use super::stage::{StageSize, pool};
use crate::architecture::Architecture;
use crate::error::ModelError;
use crate::layers::ConvSettings;
use crate::overrides::{self, ModelOverrides};
use crate::summary::{BlockSize, Macs, StageSummary, Summary};
use crate::validate;

/// Sizes and settings of a PiT.
#[derive(Clone, Debug, PartialEq)]
pub struct PitConfig {
    /// Side of the square input image in pixels; at least `patch_size`.
    pub img_size: usize,
    /// Side of a patch in pixels.
    pub patch_size: usize,
    /// Pixels from one patch to the next. What remains of the image at its right and bottom is not
    /// seen.
    pub patch_stride: usize,
    /// Channels of the input image.
    pub in_chans: usize,
    /// Classes.
    pub num_classes: usize,
    /// Channels of a token in each stage; a multiple of those of the stage before.
    pub embed_dim: Vec<usize>,
    /// Blocks of each stage.
    pub depth: Vec<usize>,
    /// Attention heads of each stage; each divides `embed_dim`.
    pub num_heads: Vec<usize>,
    /// Hidden channels of the MLP as a multiple of `embed_dim`.
    pub mlp_ratio: f64,
    /// Whether queries, keys and values have a bias.
    pub qkv_bias: bool,
    /// Whether there are a distillation token and its head.
    pub distilled: bool,
    /// Stochastic depth of the last block, in [0, 1); falls linearly to 0 in the first.
    pub drop_path: f64,
    /// Dropout of the attention weights, in [0, 1).
    pub attn_drop: f64,
    /// The attention of each stage.
    pub attention: Vec<Attention>,
}

/// The sizes with a name: channels, blocks, heads, patch size and stride.
type Size = (&'static str, [usize; 3], [usize; 3], [usize; 3], [usize; 2]);
const SIZES: [Size; 4] = [
    ("ti", [64, 128, 256], [2, 6, 4], [2, 4, 8], [16, 8]),
    ("xs", [96, 192, 384], [2, 6, 4], [2, 4, 8], [16, 8]),
    ("s", [144, 288, 576], [2, 6, 4], [3, 6, 12], [16, 8]),
    ("b", [256, 512, 1024], [3, 6, 4], [4, 8, 16], [14, 7]),
];

impl PitConfig {
    /// Patches along a side of the image.
    pub fn grid_size(&self) -> usize {
        self.patch_embed().output_size(self.img_size)
    }

    /// Tokens before those of the map: the class token, and the distillation token.
    pub fn num_prefix_tokens(&self) -> usize {
        1 + usize::from(self.distilled)
    }

    /// How images become the first map.
    pub(super) fn patch_embed(&self) -> ConvSettings {
        ConvSettings {
            in_channels: self.in_chans,
            out_channels: self.embed_dim.first().copied().unwrap_or(0),
            kernel: self.patch_size,
            stride: self.patch_stride,
            padding: 0,
            groups: 1,
            bias: true,
        }
    }

    /// Channels of a token at the end.
    pub(super) fn num_features(&self) -> usize {
        self.embed_dim.last().copied().unwrap_or(0)
    }

    /// The stages, first to last.
    pub(super) fn stages(&self) -> Vec<StageSize> {
        let (mut channels, mut before) = (None, self.grid_size());
        let lists = self.embed_dim.iter().zip(&self.depth);
        let lists = lists.zip(self.num_heads.iter().zip(&self.attention));
        let stages = lists.map(|((&dim, &depth), (&num_heads, &attention))| {
            let pool = channels.map(|channels| pool(channels, dim));
            let size = StageSize {
                block: BlockSize {
                    dim,
                    hidden: validate::mlp_hidden(dim, self.mlp_ratio),
                    qkv_bias: self.qkv_bias,
                },
                depth,
                num_heads,
                attention,
                pool,
                before,
                grid: pool.map_or(before, |pool| pool.output_size(before)),
            };
            (channels, before) = (Some(dim), size.grid);
            size
        });
        stages.collect()
    }
}

impl Architecture for PitConfig {
    type Network = Pit;

    fn named() -> Vec<Self> {
        let configs = [false, true].into_iter().flat_map(|distilled| {
            SIZES.map(
                |(_, embed_dim, depth, num_heads, [patch_size, patch_stride])| Self {
                    img_size: 224,
                    patch_size,
                    patch_stride,
                    in_chans: 3,
                    num_classes: 1000,
                    embed_dim: embed_dim.to_vec(),
                    depth: depth.to_vec(),
                    num_heads: num_heads.to_vec(),
                    mlp_ratio: 4.0,
                    qkv_bias: true,
                    distilled,
                    drop_path: 0.0,
                    attn_drop: 0.0,
                    attention: vec![Attention::dense(); 3],
                },
            )
        });
        configs.collect()
    }

    fn with(self, overrides: &ModelOverrides) -> Result<Self, ModelError> {
        overrides.refuse("PiT", &["window_size", "kv_stride"])?;
        let stages = overrides.stages(self.depth.len());
        let per_stage =
            |field, given: &[usize], own: &[usize]| overrides::per_stage(field, given, own, stages);
        Ok(Self {
            img_size: overrides.img_size.unwrap_or(self.img_size),
            patch_size: overrides.patch_size.unwrap_or(self.patch_size),
            patch_stride: overrides.patch_stride.unwrap_or(self.patch_stride),
            in_chans: overrides.in_chans.unwrap_or(self.in_chans),
            num_classes: overrides.num_classes.unwrap_or(self.num_classes),
            embed_dim: per_stage("embed_dim", &overrides.embed_dim, &self.embed_dim)?,
            depth: per_stage("depth", &overrides.depth, &self.depth)?,
            num_heads: per_stage("num_heads", &overrides.num_heads, &self.num_heads)?,
            mlp_ratio: overrides.mlp_ratio.unwrap_or(self.mlp_ratio),
            qkv_bias: overrides.qkv_bias.unwrap_or(self.qkv_bias),
            distilled: self.distilled,
            drop_path: overrides.drop_path.unwrap_or(self.drop_path),
            attn_drop: overrides.attn_drop.unwrap_or(self.attn_drop),
            attention: overrides.attentions(&self.attention, stages),
        })
    }

    fn validate(&self) -> Result<(), ModelError> {
        let stages = self.depth.len();
        validate::sizes(&[
            ("img_size", self.img_size),
            ("patch_size", self.patch_size),
            ("patch_stride", self.patch_stride),
            ("in_chans", self.in_chans),
            ("num_classes", self.num_classes),
            ("depth", stages),
        ])?;
        validate::per_stage(
            stages,
            &[
                ("embed_dim", self.embed_dim.len()),
                ("num_heads", self.num_heads.len()),
                ("attention", self.attention.len()),
            ],
        )?;
        if self.img_size < self.patch_size {
            return Err(ModelError::ImageTooSmall {
                img_size: self.img_size,
                family: "PiT with such patches",
                least: self.patch_size,
            });
        }
        validate::rates(self.drop_path, self.attn_drop)?;
        let mut before = None;
        for stage in self.stages() {
            let embed_dim = stage.block.dim;
            validate::sizes(&[
                ("embed_dim", embed_dim),
                ("depth", stage.depth),
                ("num_heads", stage.num_heads),
            ])?;
            validate::tokens(stage.grid)?;
            validate::whole_heads(embed_dim, stage.num_heads)?;
            validate::mlp(embed_dim, self.mlp_ratio)?;
            stage.attention.validate()?;
            if let Some(before) = before
                && !embed_dim.is_multiple_of(before)
            {
                return Err(ModelError::ChannelsNotMultiple { embed_dim, before });
            }
            before = Some(embed_dim);
        }
        Ok(())
    }

    fn name(&self) -> String {
        let sizes = (
            self.embed_dim.as_slice(),
            self.depth.as_slice(),
            self.num_heads.as_slice(),
        );
        let patch = [self.patch_size, self.patch_stride];
        let known = SIZES
            .iter()
            .find(|(_, dims, depth, heads, _)| sizes == (dims, depth, heads));
        let size = match known {
            Some((size, ..)) => (*size).to_owned(),
            None => format!("{}x{}", list(&self.embed_dim), list(&self.depth)),
        };
        let patch = match known {
            Some((.., own)) if *own == patch => String::new(),
            _ => format!("_patch{}_stride{}", patch[0], patch[1]),
        };
        let distilled = if self.distilled { "_distilled" } else { "" };
        format!("pit_{size}{distilled}{patch}_{}", self.img_size)
    }

    fn img_size(&self) -> usize {
        self.img_size
    }

    fn in_chans(&self) -> usize {
        self.in_chans
    }

    fn num_classes(&self) -> usize {
        self.num_classes
    }

    fn summary(&self) -> Summary {
        let (prefix, grid) = (self.num_prefix_tokens(), self.grid_size());
        let stages = self.stages();
        let stages = stages.iter().enumerate();
        let stages: Vec<StageSummary> = stages.map(|(i, stage)| stage.summary(i, prefix)).collect();

        let (patch_embed, features) = (self.patch_embed(), self.num_features());
        let embeddings = (prefix + grid.pow(2)) * patch_embed.out_channels;
        let classifiers = prefix * (features + 1) * self.num_classes;
        let blocks: usize = stages.iter().map(|stage| stage.params).sum();
        let outside = patch_embed.macs(self.img_size) + prefix * features * self.num_classes;
        Summary {
            name: self.name(),
            params: patch_embed.params() + embeddings + blocks + 2 * features + classifiers,
            macs: stages.iter().map(|stage| stage.macs).sum::<Macs>() + Macs::linear(outside),
            stages,
        }
    }
}

fn list(sizes: &[usize]) -> String {
    let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
    sizes.join("-")
}

#[cfg(test)]
mod tests;
