//! Sizes of a So-ViT, and their cost.

use kvt_attention::{AttentionConfig, Macs};

use crate::error::ModelError;
use crate::family::FamilyConfig;
use crate::family::common::{CommonConfig, unusual};
use crate::family::cost::StageSummary;
use crate::family::model_keys::ModelOverrides;
use crate::family::transformer::Transformer;
use crate::family::validate;
use crate::head::{Classifier, SecondOrder, SecondOrderSize};
use crate::layers::Init;
use crate::weights::pos_embed::{Bicubic, Form};

/// Sizes and settings of a So-ViT.
#[derive(Clone, Debug, PartialEq)]
pub struct SoVitConfig {
    /// What So-ViT shares with the other families.
    pub common: CommonConfig,
    /// Strides of the three bottlenecks, after a pooling that halves the image.
    pub strides: [usize; 3],
    /// Channels of a token.
    pub embed_dim: usize,
    /// Blocks.
    pub depth: usize,
    /// Attention heads; divides `embed_dim`.
    pub num_heads: usize,
    /// Channels of the two projections of the patches whose covariance the head reads.
    pub cov_dims: [usize; 2],
    /// Dropout of the covariance, in [0, 1).
    pub head_drop: f64,
    /// The attention of all blocks.
    pub attention: AttentionConfig,
}

/// A named size: channels, blocks, heads, ratio of the MLP, channels of the covariance, its dropout.
type Size = (&'static str, usize, usize, usize, f64, [usize; 2], f64);
const SIZES: [Size; 4] = [
    ("7", 256, 7, 4, 2.0, [48, 24], 0.0),
    ("10", 256, 10, 4, 2.0, [48, 24], 0.0),
    ("14", 384, 14, 6, 3.0, [64, 48], 0.5),
    ("19", 448, 19, 7, 3.0, [96, 48], 0.5),
];
/// The strides that names do not mention: the original's from 224 pixels.
const STRIDES: [usize; 3] = [2, 2, 2];

impl SoVitConfig {
    /// The blocks.
    pub(super) fn blocks(&self) -> Transformer {
        let sizes = [self.embed_dim, self.depth, self.num_heads];
        let grid = [self.grid_size(); 2];
        self.common.transformer(sizes, &self.attention, 1, grid)
    }

    fn second_order(&self) -> SecondOrderSize {
        SecondOrderSize {
            dim: self.embed_dim,
            cov_dims: self.cov_dims,
            classes: self.common.num_classes,
            drop: self.head_drop,
        }
    }
}

impl FamilyConfig for SoVitConfig {
    fn named() -> Vec<Self> {
        let configs = SIZES.into_iter().map(
            |(_, embed_dim, depth, num_heads, mlp_ratio, cov_dims, head_drop)| Self {
                common: CommonConfig {
                    mlp_ratio,
                    qkv_bias: false,
                    ..CommonConfig::imagenet(224)
                },
                strides: STRIDES,
                embed_dim,
                depth,
                num_heads,
                cov_dims,
                head_drop,
                attention: AttentionConfig::dense(),
            },
        );
        configs.collect()
    }

    fn with(mut self, overrides: &ModelOverrides) -> Result<Self, ModelError> {
        let own = [self.embed_dim, self.depth, self.num_heads];
        [self.embed_dim, self.depth, self.num_heads] = overrides.blocks(own)?;
        self.strides = overrides.strides(self.strides, "the bottlenecks after the pooling")?;
        self.cov_dims = overrides.cov_dims.unwrap_or(self.cov_dims);
        self.head_drop = overrides.head_drop.unwrap_or(self.head_drop);
        self.attention = overrides.attentions(&[self.attention], 1)?.swap_remove(0);
        Ok(self)
    }

    fn validate(&self) -> Result<(), ModelError> {
        validate::sizes(&self.strides.map(|stride| ("strides", stride)))?;
        let [rows, columns] = self.cov_dims;
        validate::sizes(&[("cov_dims", rows), ("cov_dims", columns)])?;
        validate::rate("head_drop", self.head_drop)?;
        validate::tokens(self.grid_size())?;
        self.blocks().validate(self.common.mlp_ratio)
    }

    /// timm has no So-ViT: the original's name, with the settings that the size does not imply.
    fn name(&self) -> String {
        let sizes = (self.embed_dim, self.depth, self.num_heads);
        let known = SIZES
            .iter()
            .find(|(_, dim, depth, heads, ..)| sizes == (*dim, *depth, *heads));
        let size = match known {
            Some((size, ..)) => (*size).to_owned(),
            None => format!("{}x{}", self.embed_dim, self.depth),
        };
        let strides = unusual("strides", &self.strides, &STRIDES);
        format!("so_vit_{size}{strides}{}", self.common.size_suffix())
    }

    fn num_features(&self) -> usize {
        self.embed_dim
    }

    fn cost(&self) -> (Vec<StageSummary>, usize, Macs) {
        let second_order = self.second_order();
        // The positions are fixed: there is only a class token.
        let [params, macs] = self.visual_cost();
        let params = params + self.embed_dim + second_order.params();
        let macs = macs + second_order.macs(self.grid_size().pow(2));
        (
            vec![self.blocks().summary("blocks")],
            params,
            Macs::linear(macs),
        )
    }

    fn classifier(&self, init: &Init<'_>) -> Classifier {
        let (dim, classes) = (self.embed_dim, self.common.num_classes);
        let init = init.child("classifier");
        let class = init.linear("cls_fc", dim, classes, true);
        Classifier {
            second_order: Some(SecondOrder::new(&init, self.second_order())),
            ..Classifier::new(class, None)
        }
    }

    /// The original cannot change the size of the positions of trained weights. A sinusoid of a longer sequence would
    /// renumber the patches; a resized one keeps their places.
    fn positions(&self, name: &str) -> Option<(Bicubic, [usize; 2], Form)> {
        let grid = [self.grid_size(); 2];
        (name == "pos_embed").then_some((Bicubic::Antialiased, grid, Form::Tokens(1)))
    }
}

#[cfg(test)]
mod tests;
