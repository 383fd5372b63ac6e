//! Sizes of a DeiT, and what they cost.

use kvt_attention::Attention;

use crate::error::ModelError;
use crate::summary::{Macs, StageSummary, Summary};

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
    /// Refuses sizes that describe no model.
    ///
    /// # Errors
    ///
    /// Zero sizes, an image that does not divide into patches, an embedding that does not divide
    /// among the heads, rates outside [0, 1), an attention that keeps no keys.
    pub fn validate(&self) -> Result<(), ModelError> {
        let sizes = [
            ("img_size", self.img_size),
            ("patch_size", self.patch_size),
            ("in_chans", self.in_chans),
            ("num_classes", self.num_classes),
            ("embed_dim", self.embed_dim),
            ("depth", self.depth),
            ("num_heads", self.num_heads),
        ];
        if let Some((field, _)) = sizes.into_iter().find(|(_, size)| *size == 0) {
            return Err(ModelError::Zero { field });
        }
        let (img_size, patch_size) = (self.img_size, self.patch_size);
        if !img_size.is_multiple_of(patch_size) {
            let lower = (img_size / patch_size).max(1) * patch_size;
            let upper = img_size.next_multiple_of(patch_size).max(2 * patch_size);
            return Err(ModelError::ImageNotDivisible {
                img_size,
                patch_size,
                lower,
                upper,
            });
        }
        if !self.embed_dim.is_multiple_of(self.num_heads) {
            return Err(ModelError::HeadsNotDivisible {
                embed_dim: self.embed_dim,
                num_heads: self.num_heads,
            });
        }
        if !self.mlp_ratio.is_finite() || self.mlp_hidden() == 0 {
            return Err(ModelError::OutOfRange {
                field: "mlp_ratio",
                value: self.mlp_ratio,
                expected: "a finite number that leaves at least one hidden channel",
            });
        }
        for (field, value) in [("drop_path", self.drop_path), ("attn_drop", self.attn_drop)] {
            if !(0.0..1.0).contains(&value) {
                return Err(ModelError::OutOfRange {
                    field,
                    value,
                    expected: "a rate of at least 0 and below 1",
                });
            }
        }
        Ok(self.attention.validate()?)
    }

    /// Refuses images the model does not take.
    ///
    /// # Errors
    ///
    /// `dims`, `[batch, channels, height, width]`, are not `[batch, in_chans, img_size, img_size]`.
    pub fn check_input(&self, dims: [usize; 4]) -> Result<(), ModelError> {
        let [_, channels, height, width] = dims;
        if (channels, height, width) == (self.in_chans, self.img_size, self.img_size) {
            return Ok(());
        }
        Err(ModelError::InputShape {
            found: dims,
            in_chans: self.in_chans,
            img_size: self.img_size,
        })
    }

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

    /// Hidden channels of the MLP.
    pub fn mlp_hidden(&self) -> usize {
        (self.embed_dim as f64 * self.mlp_ratio) as usize
    }

    /// timm's name of the architecture; channels x depth stand in for a size it has no name for.
    pub fn name(&self) -> String {
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

    /// Size and cost, computed without building the model; meaningful for a valid configuration.
    pub fn summary(&self) -> Summary {
        let (dim, hidden, tokens) = (self.embed_dim, self.mlp_hidden(), self.tokens());
        let patch_inputs = self.in_chans * self.patch_size.pow(2);
        let heads = self.num_prefix_tokens();

        let weights_per_block = 4 * dim * dim + 2 * dim * hidden;
        let qkv_bias = if self.qkv_bias { 3 * dim } else { 0 };
        let biases_per_block = qkv_bias + dim + hidden + dim;
        let norms_per_block = 4 * dim;
        let blocks = StageSummary {
            name: "blocks".to_owned(),
            depth: self.depth,
            tokens,
            keys: tokens,
            k: self.attention.neighbors.resolve(tokens),
            params: self.depth * (weights_per_block + biases_per_block + norms_per_block),
            macs: Macs {
                linear: self.depth as u64 * tokens as u64 * weights_per_block as u64,
                attention: self.depth as u64 * 2 * (tokens as u64).pow(2) * dim as u64,
            },
        };

        let patch_embed = (patch_inputs + 1) * dim;
        let embeddings = (heads + tokens) * dim;
        let classifiers = heads * (dim + 1) * self.num_classes;
        let patches = self.grid_size().pow(2) as u64;
        let outside =
            patches * (patch_inputs * dim) as u64 + (heads * dim * self.num_classes) as u64;
        Summary {
            name: self.name(),
            params: patch_embed + embeddings + blocks.params + 2 * dim + classifiers,
            macs: Macs {
                linear: blocks.macs.linear + outside,
                attention: blocks.macs.attention,
            },
            stages: vec![blocks],
        }
    }
}
