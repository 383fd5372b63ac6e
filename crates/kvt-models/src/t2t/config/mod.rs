//! Sizes of a T2T-ViT, and their cost.

mod tokens_type;

use kvt_attention::{AttentionConfig, Macs};

pub use tokens_type::TokensType;

use super::token::{TokenSize, split};
use crate::error::ModelError;
use crate::family::FamilyConfig;
use crate::family::blocks::BlockGroup;
use crate::family::common::{CommonConfig, unusual};
use crate::family::cost::StageSummary;
use crate::family::model_keys::ModelOverrides;
use crate::family::transformer::Transformer;
use crate::family::validate;
use crate::weights::pos_embed::{Bicubic, Form};

/// Sizes and settings of a T2T-ViT.
#[derive(Clone, Debug, PartialEq)]
pub struct T2tConfig {
    /// What T2T-ViT shares with the other families; everything but the image applies only to the blocks.
    pub common: CommonConfig,
    /// The layers between the soft splits.
    pub tokens_type: TokensType,
    /// Strides of the three soft splits; their product divides `img_size`. The kernels are 7, 3 and 3 wide.
    pub strides: [usize; 3],
    /// Channels of a token between the soft splits.
    pub token_dim: usize,
    /// Channels of a token in the blocks.
    pub embed_dim: usize,
    /// Blocks.
    pub depth: usize,
    /// Attention heads of a block; divides `embed_dim`.
    pub num_heads: usize,
    /// The attention of the blocks.
    pub attention: AttentionConfig,
}

/// The named sizes: channels, blocks, heads, hidden channels of an MLP per channel. A `t` marks token transformers.
type Size = (&'static str, [usize; 3], f64);
const SIZES: [Size; 11] = [
    ("7", [256, 7, 4], 2.0),
    ("10", [256, 10, 4], 2.0),
    ("12", [256, 12, 4], 2.0),
    ("14", [384, 14, 6], 3.0),
    ("19", [448, 19, 7], 3.0),
    ("24", [512, 24, 8], 3.0),
    ("t_14", [384, 14, 6], 3.0),
    ("t_19", [448, 19, 7], 3.0),
    ("t_24", [512, 24, 8], 3.0),
    ("14_resnext", [384, 14, 32], 3.0),
    ("14_wide", [768, 4, 12], 3.0),
];
/// Kernels of the soft splits.
const KERNELS: [usize; 3] = [7, 3, 3];
/// Strides and channels of the token module that names do not mention.
const STRIDES: [usize; 3] = [4, 2, 2];
const TOKEN_DIM: usize = 64;

/// The modules between the soft splits.
pub(super) const LAYERS: [&str; 2] = ["attention1", "attention2"];

impl T2tConfig {
    /// Pixels along a side of the area that becomes one token of the last map.
    pub(super) fn patch(&self) -> usize {
        self.strides.iter().product()
    }

    /// Tokens along a side of the last map.
    pub fn grid_size(&self) -> usize {
        self.token_sizes()[2].grid
    }

    /// The sizes after each of the soft splits: two layers, and the projection to the blocks.
    pub(super) fn token_sizes(&self) -> [TokenSize; 3] {
        let (mut channels, mut side) = (self.common.in_chans, self.common.side());
        [0, 1, 2].map(|i| {
            let split = split(KERNELS[i], self.strides[i].max(1));
            let [grid, _] = split.positions([side; 2]);
            let dim = [self.token_dim, self.token_dim, self.embed_dim][i];
            let input = channels * split.kernel.pow(2);
            (channels, side) = (dim, grid);
            TokenSize {
                split,
                input,
                dim,
                grid,
            }
        })
    }

    /// The blocks.
    pub(super) fn blocks(&self) -> Transformer {
        let sizes = [self.embed_dim, self.depth, self.num_heads];
        let grid = [self.grid_size(); 2];
        self.common.transformer(sizes, &self.attention, 1, grid)
    }
}

/// The stage of a layer between the soft splits.
fn stage_name(layer: &str) -> String {
    format!("tokens_to_token.{layer}")
}

impl FamilyConfig for T2tConfig {
    fn named() -> Vec<Self> {
        let configs = SIZES.map(|(size, [embed_dim, depth, num_heads], mlp_ratio)| Self {
            common: CommonConfig {
                mlp_ratio,
                qkv_bias: false,
                ..CommonConfig::imagenet(224)
            },
            tokens_type: TokensType::named(size),
            strides: STRIDES,
            token_dim: TOKEN_DIM,
            embed_dim,
            depth,
            num_heads,
            attention: AttentionConfig::dense(),
        });
        configs.into()
    }

    fn with(mut self, overrides: &ModelOverrides) -> Result<Self, ModelError> {
        let own = [self.embed_dim, self.depth, self.num_heads];
        [self.embed_dim, self.depth, self.num_heads] = overrides.blocks(own)?;
        (self.tokens_type, self.attention) = self.tokens_type.with(self.attention, overrides)?;
        self.strides = overrides.strides(self.strides, "its soft splits")?;
        self.token_dim = overrides.token_dim.unwrap_or(self.token_dim);
        Ok(self)
    }

    fn validate(&self) -> Result<(), ModelError> {
        validate::sizes(&self.strides.map(|stride| ("strides", stride)))?;
        validate::sizes(&[("token_dim", self.token_dim)])?;
        self.tokens_type.validate(self.token_dim)?;
        validate::whole_strides(self.common.side(), self.patch())?;
        // The first map is the largest.
        validate::tokens(self.token_sizes()[0].grid)?;
        for (i, (name, size)) in LAYERS.iter().zip(self.token_sizes()).enumerate() {
            if let Some(attention) = self.tokens_type.attention(i) {
                let valid = attention.validate_at(&size.place());
                valid.map_err(|error| ModelError::from(error).in_stage(stage_name(name)))?;
            }
        }
        self.blocks().validate(self.common.mlp_ratio)
    }

    fn input_sides(&self) -> [usize; 2] {
        [1, self.patch()]
    }

    /// timm has no T2T-ViT: the original's name, with the image size if it is not 224.
    fn name(&self) -> String {
        let own = [self.embed_dim, self.depth, self.num_heads];
        let known = SIZES
            .iter()
            .find(|(size, sizes, _)| self.tokens_type.is_named(size) && *sizes == own);
        let size = match known {
            Some((size, ..)) => (*size).to_owned(),
            None => {
                let prefix = self.tokens_type.prefix();
                format!("{prefix}{}x{}", self.embed_dim, self.depth)
            }
        };
        let token = unusual("token", &[self.token_dim], &[TOKEN_DIM]);
        let stride = unusual("stride", &self.strides, &STRIDES);
        format!("t2t_vit_{size}{token}{stride}{}", self.common.size_suffix())
    }

    fn num_features(&self) -> usize {
        self.embed_dim
    }

    fn cost(&self) -> (Vec<StageSummary>, usize, Macs) {
        let layers = LAYERS
            .iter()
            .zip(self.token_sizes())
            .enumerate()
            .map(|(i, (name, size))| size.summary(stage_name(name), self.tokens_type.attention(i)));
        let stages = layers.chain([self.blocks().summary("blocks")]).collect();

        let [.., last] = self.token_sizes();
        // The projection, and the class token.
        let params = (last.input + 2) * last.dim;
        let macs = Macs::linear(last.tokens() * last.input * last.dim);
        (stages, params, macs)
    }

    /// As in the original for weights of another size, which are then fine-tuned. A model of that size computes its
    /// positions.
    fn positions(&self, name: &str) -> Option<(Bicubic, [usize; 2], Form)> {
        let grid = [self.grid_size(); 2];
        (name == "pos_embed").then_some((Bicubic::Plain, grid, Form::Tokens(1)))
    }

    fn fixed_numbers(&self) -> usize {
        match self.tokens_type {
            TokensType::Transformer { .. } => 0,
            TokensType::Performer { .. } => {
                let [layers @ .., _] = self.token_sizes();
                layers.map(|size| size.features() * size.dim).iter().sum()
            }
        }
    }

    /// All modules that make tokens belong to the embedding.
    fn groups(&self) -> Vec<BlockGroup> {
        vec![BlockGroup::new("blocks", self.depth)]
    }
}

#[cfg(test)]
mod tests;
