//! Sizes of a Swin, and what they cost.

use kvt_attention::Attention;

use super::Swin;
use super::window::Windows;
use crate::architecture::Architecture;
use crate::error::ModelError;
use crate::overrides::{self, ModelOverrides};
use crate::summary::{BlockSize, Macs, StageSummary, Summary};
use crate::validate;

/// More stages than that shrink any image to nothing, and their channels could not be counted.
const MAX_STAGES: usize = 16;

/// Sizes and settings of a Swin. Lists have one entry per stage.
#[derive(Clone, Debug, PartialEq)]
pub struct SwinConfig {
    /// Side of the square input image in pixels.
    pub img_size: usize,
    /// Side of a patch in pixels; divides `img_size`.
    pub patch_size: usize,
    /// Channels of the input image.
    pub in_chans: usize,
    /// Classes.
    pub num_classes: usize,
    /// Channels of a token in the first stage; they double from stage to stage.
    pub embed_dim: usize,
    /// Blocks of each stage; the length is the number of stages.
    pub depth: Vec<usize>,
    /// Attention heads of each stage; divide its channels.
    pub num_heads: Vec<usize>,
    /// Side of a window in tokens. A map that is smaller is one window.
    pub window_size: usize,
    /// Hidden channels of the MLP as a multiple of the stage's channels.
    pub mlp_ratio: f64,
    /// Whether queries, keys and values have a bias.
    pub qkv_bias: bool,
    /// Stochastic depth of the last block, in [0, 1); falls linearly to 0 in the first.
    pub drop_path: f64,
    /// Dropout of the attention weights, in [0, 1).
    pub attn_drop: f64,
    /// The attention of the blocks of each stage.
    pub attention: Vec<Attention>,
}

/// Sizes and settings of one stage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct StageSize {
    /// What a block is made of, besides its table of relative positions.
    pub block: BlockSize,
    /// Blocks.
    pub depth: usize,
    /// Attention heads.
    pub num_heads: usize,
    /// The windows of the blocks with an even index; the others are shifted.
    pub windows: Windows,
    /// How a query attends.
    pub attention: Attention,
    /// Dropout of the attention weights.
    pub attn_drop: f64,
}

impl SwinConfig {
    /// Patches along a side of the image: tokens along a side of the first stage's map.
    pub fn grid_size(&self) -> usize {
        self.img_size.checked_div(self.patch_size).unwrap_or(0)
    }

    /// Channels of the last stage.
    pub fn num_features(&self) -> usize {
        self.embed_dim << self.depth.len().saturating_sub(1)
    }

    /// The stages, first to last.
    pub(super) fn stages(&self) -> impl Iterator<Item = StageSize> {
        // A map of an odd size is padded before it is halved.
        let maps = std::iter::successors(Some(self.grid_size()), |map| Some(map.div_ceil(2)));
        let lists = self.depth.iter().zip(&self.num_heads).zip(&self.attention);
        let stages = lists.zip(maps).enumerate();
        stages.map(|(stage, (((&depth, &num_heads), &attention), map))| {
            let dim = self.embed_dim << stage;
            StageSize {
                block: BlockSize {
                    dim,
                    hidden: validate::mlp_hidden(dim, self.mlp_ratio),
                    qkv_bias: self.qkv_bias,
                },
                depth,
                num_heads,
                windows: Windows::new(map, self.window_size),
                attention,
                attn_drop: self.attn_drop,
            }
        })
    }
}

impl StageSize {
    /// Size and cost of the blocks, and of the merging of patches before them.
    fn summary(&self, stage: usize) -> StageSummary {
        let Self { block, windows, .. } = *self;
        let (dim, tokens, keys) = (block.dim, windows.map.pow(2), windows.area());
        let table = windows.relative_positions() * self.num_heads;
        // What pads a map is projected and attends, but does not reach the MLP.
        let padded = windows.count() * keys;
        let padding = Macs::linear((padded - tokens) * 4 * dim * dim);
        let attention = Macs {
            linear: 0,
            attention: 2 * (padded * keys * dim) as u64,
        };
        // Four tokens of half the channels: `[4 * dim / 2, dim]`.
        let (merging, merging_norm) = match stage {
            0 => (0, 0),
            _ => (2 * dim * dim, 4 * dim),
        };
        StageSummary {
            name: format!("layers.{stage}"),
            depth: self.depth,
            tokens,
            keys,
            k: self.attention.neighbors.resolve(keys),
            params: self.depth * (block.params() + table) + merging + merging_norm,
            macs: (block.macs(tokens, 0) + padding + attention) * self.depth
                + Macs::linear(tokens * merging),
        }
    }
}

impl Architecture for SwinConfig {
    type Network = Swin;

    fn named() -> Vec<Self> {
        let tiny = (96, 6, [3, 6, 12, 24]);
        let small = (96, 18, [3, 6, 12, 24]);
        let base = (128, 18, [4, 8, 16, 32]);
        let large = (192, 18, [6, 12, 24, 48]);
        let sizes = [
            (tiny, 7, 224),
            (small, 7, 224),
            (base, 7, 224),
            (base, 12, 384),
            (large, 7, 224),
            (large, 12, 384),
        ];
        let configs = sizes.map(
            |((embed_dim, depth, num_heads), window_size, img_size)| Self {
                img_size,
                patch_size: 4,
                in_chans: 3,
                num_classes: 1000,
                embed_dim,
                depth: vec![2, 2, depth, 2],
                num_heads: num_heads.to_vec(),
                window_size,
                mlp_ratio: 4.0,
                qkv_bias: true,
                drop_path: 0.0,
                attn_drop: 0.0,
                attention: vec![Attention::dense(); 4],
            },
        );
        configs.into()
    }

    fn with(self, overrides: &ModelOverrides) -> Result<Self, ModelError> {
        overrides.refuse("Swin", &["patch_stride", "kv_stride"])?;
        let stages = overrides.stages(self.depth.len());
        let per_stage =
            |field, given: &[usize], own: &[usize]| overrides::per_stage(field, given, own, stages);
        let embed_dim = match overrides.embed_dim.as_slice() {
            [] => self.embed_dim,
            [first] => *first,
            list => {
                return Err(ModelError::FirstStageOnly {
                    field: "embed_dim",
                    given: list.len(),
                    family: "Swin",
                });
            }
        };
        Ok(Self {
            img_size: overrides.img_size.unwrap_or(self.img_size),
            patch_size: overrides.patch_size.unwrap_or(self.patch_size),
            in_chans: overrides.in_chans.unwrap_or(self.in_chans),
            num_classes: overrides.num_classes.unwrap_or(self.num_classes),
            embed_dim,
            depth: per_stage("depth", &overrides.depth, &self.depth)?,
            num_heads: per_stage("num_heads", &overrides.num_heads, &self.num_heads)?,
            window_size: overrides.window_size.unwrap_or(self.window_size),
            mlp_ratio: overrides.mlp_ratio.unwrap_or(self.mlp_ratio),
            qkv_bias: overrides.qkv_bias.unwrap_or(self.qkv_bias),
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
            ("in_chans", self.in_chans),
            ("num_classes", self.num_classes),
            ("embed_dim", self.embed_dim),
            ("depth", stages),
            ("window_size", self.window_size),
        ])?;
        validate::per_stage(
            stages,
            &[
                ("num_heads", self.num_heads.len()),
                ("attention", self.attention.len()),
            ],
        )?;
        if stages > MAX_STAGES {
            return Err(ModelError::OutOfRange {
                field: "number of stages",
                value: stages as f64,
                expected: "at most 16 entries of `depth`, since every stage doubles the channels",
            });
        }
        validate::whole_patches(self.img_size, self.patch_size)?;
        validate::tokens(self.grid_size())?;
        validate::mlp(self.embed_dim, self.mlp_ratio)?;
        validate::rates(self.drop_path, self.attn_drop)?;
        for stage in self.stages() {
            validate::sizes(&[
                ("depth", stage.depth),
                ("num_heads", stage.num_heads),
                // It doubles from stage to stage.
                ("embed_dim", stage.block.dim),
            ])?;
            validate::mlp(stage.block.dim, self.mlp_ratio)?;
            validate::whole_heads(stage.block.dim, stage.num_heads)?;
            stage.attention.validate()?;
        }
        Ok(())
    }

    fn name(&self) -> String {
        let sizes = (
            self.embed_dim,
            self.depth.as_slice(),
            self.num_heads.as_slice(),
        );
        let size = match sizes {
            (96, [2, 2, 6, 2], [3, 6, 12, 24]) => "tiny".to_owned(),
            (96, [2, 2, 18, 2], [3, 6, 12, 24]) => "small".to_owned(),
            (128, [2, 2, 18, 2], [4, 8, 16, 32]) => "base".to_owned(),
            (192, [2, 2, 18, 2], [6, 12, 24, 48]) => "large".to_owned(),
            (dim, depth, _) => {
                let depth: Vec<String> = depth.iter().map(usize::to_string).collect();
                format!("{dim}x{}", depth.join("-"))
            }
        };
        let (patch, window, img) = (self.patch_size, self.window_size, self.img_size);
        format!("swin_{size}_patch{patch}_window{window}_{img}")
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
        let stages = self.stages().enumerate();
        let stages: Vec<StageSummary> = stages.map(|(i, stage)| stage.summary(i)).collect();
        let patch_inputs = self.in_chans * self.patch_size.pow(2);
        let patches = self.grid_size().pow(2);
        let patch_embed = (patch_inputs + 1) * self.embed_dim + 2 * self.embed_dim;
        let features = self.num_features();
        let classifier = (features + 1) * self.num_classes;
        let outside = patches * patch_inputs * self.embed_dim + features * self.num_classes;
        let blocks: usize = stages.iter().map(|stage| stage.params).sum();
        Summary {
            name: self.name(),
            params: patch_embed + blocks + 2 * features + classifier,
            macs: stages.iter().map(|stage| stage.macs).sum::<Macs>() + Macs::linear(outside),
            stages,
        }
    }
}

#[cfg(test)]
mod tests;
