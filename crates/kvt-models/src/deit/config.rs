//! Sizes of a DeiT, and what they cost.

use kvt_attention::Attention;

use super::Deit;
use crate::architecture::Architecture;
use crate::error::ModelError;
use crate::overrides::{self, ModelOverrides};
use crate::summary::{BlockSize, Macs, StageSummary, Summary};
use crate::validate;

/// Sizes and settings of a DeiT.
#[derive(Clone, Debug, PartialEq)]
pub struct DeitConfig {
    /// Side of the square input image in pixels.
    pub img_size: usize,
    /// Side of a patch in pixels; divides `img_size`.
    pub patch_size: usize,
    /// Channels of the input image.
    pub in_chans: usize,
    /// Classes.
    pub num_classes: usize,
    /// Channels of a token.
    pub embed_dim: usize,
    /// Blocks.
    pub depth: usize,
    /// Attention heads; divides `embed_dim`.
    pub num_heads: usize,
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
    /// The attention of all blocks.
    pub attention: Attention,
}

impl DeitConfig {
    /// Patches along a side of the image.
    pub fn grid_size(&self) -> usize {
        self.img_size.checked_div(self.patch_size).unwrap_or(0)
    }

    /// Tokens before the patches: the class token, and the distillation token.
    pub fn num_prefix_tokens(&self) -> usize {
        1 + usize::from(self.distilled)
    }

    /// Tokens of a block: queries, and keys each of them chooses from.
    pub fn tokens(&self) -> usize {
        self.num_prefix_tokens() + self.grid_size().pow(2)
    }

    /// What a block is made of.
    pub(super) fn block(&self) -> BlockSize {
        BlockSize {
            dim: self.embed_dim,
            hidden: validate::mlp_hidden(self.embed_dim, self.mlp_ratio),
            qkv_bias: self.qkv_bias,
        }
    }
}

impl Architecture for DeitConfig {
    type Network = Deit;

    fn named() -> Vec<Self> {
        let sizes = [(192, 3), (384, 6), (768, 12)];
        let kinds = [(false, 224), (false, 384), (true, 224), (true, 384)];
        let configs = sizes.into_iter().flat_map(|(embed_dim, num_heads)| {
            kinds.map(|(distilled, img_size)| Self {
                img_size,
                patch_size: 16,
                in_chans: 3,
                num_classes: 1000,
                embed_dim,
                depth: 12,
                num_heads,
                mlp_ratio: 4.0,
                qkv_bias: true,
                distilled,
                drop_path: 0.0,
                attn_drop: 0.0,
                attention: Attention::dense(),
            })
        });
        configs.collect()
    }

    fn with(self, overrides: &ModelOverrides) -> Result<Self, ModelError> {
        overrides.refuse("DeiT", &["patch_stride", "window_size", "kv_stride"])?;
        let attention = overrides.attention.first().copied();
        Ok(Self {
            img_size: overrides.img_size.unwrap_or(self.img_size),
            patch_size: overrides.patch_size.unwrap_or(self.patch_size),
            in_chans: overrides.in_chans.unwrap_or(self.in_chans),
            num_classes: overrides.num_classes.unwrap_or(self.num_classes),
            embed_dim: overrides::one("embed_dim", &overrides.embed_dim, self.embed_dim)?,
            depth: overrides::one("depth", &overrides.depth, self.depth)?,
            num_heads: overrides::one("num_heads", &overrides.num_heads, self.num_heads)?,
            mlp_ratio: overrides.mlp_ratio.unwrap_or(self.mlp_ratio),
            qkv_bias: overrides.qkv_bias.unwrap_or(self.qkv_bias),
            distilled: self.distilled,
            drop_path: overrides.drop_path.unwrap_or(self.drop_path),
            attn_drop: overrides.attn_drop.unwrap_or(self.attn_drop),
            attention: attention.unwrap_or(self.attention),
        })
    }

    fn validate(&self) -> Result<(), ModelError> {
        validate::sizes(&[
            ("img_size", self.img_size),
            ("patch_size", self.patch_size),
            ("in_chans", self.in_chans),
            ("num_classes", self.num_classes),
            ("embed_dim", self.embed_dim),
            ("depth", self.depth),
            ("num_heads", self.num_heads),
        ])?;
        validate::whole_patches(self.img_size, self.patch_size)?;
        validate::tokens(self.grid_size())?;
        validate::whole_heads(self.embed_dim, self.num_heads)?;
        validate::mlp(self.embed_dim, self.mlp_ratio)?;
        validate::rates(self.drop_path, self.attn_drop)?;
        Ok(self.attention.validate()?)
    }

    fn name(&self) -> String {
        let size = match (self.embed_dim, self.depth, self.num_heads) {
            (192, 12, 3) => "tiny".to_owned(),
            (384, 12, 6) => "small".to_owned(),
            (768, 12, 12) => "base".to_owned(),
            (dim, depth, _) => format!("{dim}x{depth}"),
        };
        let distilled = if self.distilled { "_distilled" } else { "" };
        let (patch, img) = (self.patch_size, self.img_size);
        format!("deit_{size}{distilled}_patch{patch}_{img}")
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
        let (dim, tokens) = (self.embed_dim, self.tokens());
        let patch_inputs = self.in_chans * self.patch_size.pow(2);
        let heads = self.num_prefix_tokens();
        let block = self.block();
        let blocks = StageSummary {
            name: "blocks".to_owned(),
            depth: self.depth,
            tokens,
            keys: tokens,
            k: self.attention.neighbors.resolve(tokens),
            params: self.depth * block.params(),
            macs: block.macs(tokens, tokens) * self.depth,
        };

        let patch_embed = (patch_inputs + 1) * dim;
        let embeddings = (heads + tokens) * dim;
        let classifiers = heads * (dim + 1) * self.num_classes;
        let patches = self.grid_size().pow(2);
        let outside = Macs::linear(patches * patch_inputs * dim + heads * dim * self.num_classes);
        Summary {
            name: self.name(),
            params: patch_embed + embeddings + blocks.params + 2 * dim + classifiers,
            macs: blocks.macs + outside,
            stages: vec![blocks],
        }
    }
}
