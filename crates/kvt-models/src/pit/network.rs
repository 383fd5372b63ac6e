//! The modules of a PiT, in the order of the paper.

use burn::module::{Module, Param};
use burn::nn::{LayerNorm, Linear};
use burn::tensor::{Device, Tensor, TensorData};
use kvt_attention::MultiHeadAttention;
use kvt_ops::{Key, Phase, layer_norm, linear};

use super::PitConfig;
use super::stage::StageSize;
use crate::architecture::Network;
use crate::layers::{
    Activation, Block, BlockKind, Conv2d, Init, drop_path_rates, forward_blocks, to_map, to_tokens,
};
use crate::model::Logits;
use crate::weights::{StateDict, pos_embed};

/// The original's epsilon of all layer norms.
const NORM_EPSILON: f64 = 1e-6;

const BLOCK: BlockKind = BlockKind {
    norm_epsilon: NORM_EPSILON,
    activation: Activation::Gelu,
};

/// A PiT.
#[derive(Module, Debug)]
pub struct Pit {
    /// `[1, embed_dim, grid, grid]`; the class tokens have no position.
    pos_embed: Param<Tensor<4>>,
    /// `[1, 1, embed_dim]`, or with the distillation token `[1, 2, embed_dim]`.
    cls_token: Param<Tensor<3>>,
    patch_embed: PatchEmbed,
    transformers: Vec<Stage>,
    norm: LayerNorm,
    head: Linear,
    head_dist: Option<Linear>,
    #[module(skip)]
    config: PitConfig,
}

/// Patches that may overlap.
#[derive(Module, Debug)]
struct PatchEmbed {
    conv: Conv2d,
}

/// Blocks at one resolution; before them, in all stages but the first, the pooling that leads to it.
#[derive(Module, Debug)]
struct Stage {
    pool: Option<Pool>,
    blocks: Vec<Block<MultiHeadAttention>>,
}

/// A convolution for the map and a linear layer for the class tokens, which have no neighbours.
#[derive(Module, Debug)]
struct Pool {
    conv: Conv2d,
    fc: Linear,
    #[module(skip)]
    grid: usize,
}

impl Pit {
    /// The class token, and the distillation token, after the last block and the norm.
    ///
    /// # Shapes
    ///
    /// `[batch, in_chans, img_size, img_size]` to `[batch, 1 or 2, num_features]`.
    pub fn forward_features(&self, images: Tensor<4>, phase: Phase) -> Tensor<3> {
        let [batch, ..] = images.dims();
        let map = self.patch_embed.conv.forward(images) + self.pos_embed.val();
        let class = self.cls_token.val().expand([batch as i64, -1, -1]);
        let x = Tensor::cat(vec![class, to_tokens(map)], 1);

        let prefix = self.config.num_prefix_tokens();
        let phase = phase.named("transformers");
        let x = (0..)
            .zip(&self.transformers)
            .fold(x, |x, (s, stage)| stage.forward(x, prefix, phase.child(s)));
        layer_norm(&self.norm, x.narrow(1, 0, prefix), NORM_EPSILON)
    }
}

impl Stage {
    fn new(init: &Init<'_>, size: &StageSize, rates: &[f64]) -> Self {
        let pool = init.child("pool");
        let blocks = init.child("blocks");
        Self {
            pool: size.pool.map(|settings| Pool {
                conv: pool.conv("conv", settings),
                fc: pool.linear("fc", settings.in_channels, settings.out_channels, true),
                grid: size.before,
            }),
            blocks: (0..)
                .zip(rates)
                .map(|(i, rate): (usize, _)| {
                    let init = blocks.child(&i.to_string());
                    let attn = MultiHeadAttention::new(
                        &init.child("attn"),
                        &size.config.attention,
                        size.place,
                        size.block.qkv_bias,
                    );
                    Block::new(&init, BLOCK, size.block, attn, *rate)
                })
                .collect(),
        }
    }

    /// # Shapes
    ///
    /// `[batch, prefix + before * before, dim before]` to `[batch, prefix + grid * grid, dim]`, which
    /// in the first stage are the same.
    fn forward(&self, x: Tensor<3>, prefix: usize, phase: Phase) -> Tensor<3> {
        let x = match &self.pool {
            Some(pool) => pool.forward(x, prefix),
            None => x,
        };
        forward_blocks(&self.blocks, x, phase)
    }
}

impl Pool {
    /// # Shapes
    ///
    /// `[batch, prefix + grid * grid, in]` to `[batch, prefix + ceil(grid / 2)^2, out]`.
    fn forward(&self, x: Tensor<3>, prefix: usize) -> Tensor<3> {
        let grid = self.grid;
        let map = to_map(x.clone().narrow(1, prefix, grid * grid), [grid, grid]);
        let class = linear(&self.fc, x.narrow(1, 0, prefix));
        Tensor::cat(vec![class, to_tokens(self.conv.forward(map))], 1)
    }
}

impl Network for Pit {
    type Config = PitConfig;

    const FAMILY: &'static str = "PiT";
    const MARK: &'static str = "transformers.0.blocks.0.attn.qkv.weight";
    const NO_WEIGHT_DECAY: &'static [&'static str] = &["pos_embed", "cls_token"];
    const CLASSIFIERS: &'static [&'static str] = &["head", "head_dist"];

    fn new(config: PitConfig, device: &Device, key: Key) -> Self {
        // The original initialises nothing but the layer norms, the tokens and the positions.
        let init = Init::new(device, key).with_uniform_linears();
        let transformers = init.child("transformers");
        let blocks = config.stages.depth.iter().sum();
        let mut rates = drop_path_rates(config.common.drop_path, blocks);
        let stages = config.stages();
        let stages = stages.iter().enumerate().map(|(s, size)| {
            let rates: Vec<f64> = rates.by_ref().take(size.config.depth).collect();
            let init = transformers.child(&s.to_string());
            Stage::new(&init, size, &rates)
        });
        let transformers = stages.collect();
        let (patch_embed, grid) = (config.patch_embed(), config.grid_size());
        let (dim, features) = (patch_embed.out_channels, config.num_features());
        let classes = config.common.num_classes;
        Self {
            pos_embed: init.trunc_normal("pos_embed", [1, dim, grid, grid]),
            cls_token: init.token("cls_token", config.num_prefix_tokens(), dim),
            patch_embed: PatchEmbed {
                conv: init.child("patch_embed").conv("conv", patch_embed),
            },
            transformers,
            norm: init.layer_norm(features, NORM_EPSILON),
            head: init.linear("head", features, classes, true),
            head_dist: config
                .distilled
                .then(|| init.linear("head_dist", features, classes, true)),
            config,
        }
    }

    fn config(&self) -> &PitConfig {
        &self.config
    }

    fn forward_heads(&self, images: Tensor<4>, phase: Phase) -> Logits {
        let x = self.forward_features(images, phase);
        Logits::of_tokens(&x, &self.head, self.head_dist.as_ref())
    }

    fn resize(&self, name: &str, _shape: &[usize], weight: &TensorData) -> Option<TensorData> {
        match name {
            "pos_embed" => pos_embed::resample_map(weight, self.config.grid_size()),
            _ => None,
        }
    }

    fn is_official(weights: &StateDict) -> bool {
        weights.iter().any(|(name, _)| name.starts_with("pools."))
    }

    /// The original's `pools.0` is what timm makes the beginning of `transformers.1`.
    fn timm_name(official: &str) -> String {
        let pool = official.strip_prefix("pools.").and_then(numbered);
        let next = pool.and_then(|(stage, rest)| Some((stage.checked_add(1)?, rest)));
        match next {
            Some((stage, rest)) => format!("transformers.{stage}.pool.{rest}"),
            None => official.to_owned(),
        }
    }

    fn official_name(timm: &str) -> String {
        let stage = timm.strip_prefix("transformers.").and_then(numbered);
        let pool = stage.and_then(|(stage, rest)| {
            let rest = rest.strip_prefix("pool.")?;
            Some(format!("pools.{}.{rest}", stage.checked_sub(1)?))
        });
        pool.unwrap_or_else(|| timm.to_owned())
    }
}

/// The number before the first dot, and what follows it.
fn numbered(name: &str) -> Option<(u32, &str)> {
    let (number, rest) = name.split_once('.')?;
    Some((number.parse().ok()?, rest))
}

#[cfg(test)]
mod tests;
