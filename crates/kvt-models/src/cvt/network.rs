//! The modules of a CvT, in the order of the paper.

use burn::module::{Module, Param};
use burn::nn::{LayerNorm, Linear};
use burn::tensor::{Device, Tensor};
use kvt_ops::{Key, Phase, layer_norm};

use super::CvtConfig;
use super::attention::ConvAttention;
use super::stage::StageSize;
use crate::architecture::Network;
use crate::layers::{
    Activation, Block, BlockKind, Conv2d, Init, drop_path_rates, forward_blocks, to_map, to_tokens,
};
use crate::model::Logits;
use crate::weights::StateDict;

/// The original's epsilon of all layer norms.
const NORM_EPSILON: f64 = 1e-5;

const BLOCK: BlockKind = BlockKind {
    norm_epsilon: NORM_EPSILON,
    activation: Activation::QuickGelu,
};

/// A CvT.
#[derive(Module, Debug)]
pub struct Cvt {
    /// Known outside as `stage0`, `stage1`, ...
    stages: Vec<Stage>,
    norm: LayerNorm,
    head: Linear,
    #[module(skip)]
    config: CvtConfig,
}

/// Blocks at one resolution, after the embedding that leads to it.
#[derive(Module, Debug)]
struct Stage {
    cls_token: Option<Param<Tensor<3>>>,
    patch_embed: ConvEmbed,
    blocks: Vec<Block<ConvAttention>>,
    #[module(skip)]
    before: usize,
}

/// Patches that overlap, as tokens.
#[derive(Module, Debug)]
struct ConvEmbed {
    proj: Conv2d,
    norm: LayerNorm,
}

impl Cvt {
    /// The class token after the last block and the norm.
    ///
    /// # Shapes
    ///
    /// `[batch, in_chans, img_size, img_size]` to `[batch, 1, num_features]`.
    pub fn forward_features(&self, images: Tensor<4>, phase: Phase) -> Tensor<3> {
        let phase = phase.named("stages");
        // An image is a map of tokens too, of a pixel each.
        let x = (0..)
            .zip(&self.stages)
            .fold(to_tokens(images), |x, (s, stage)| {
                stage.forward(x, phase.child(s))
            });
        layer_norm(&self.norm, x.narrow(1, 0, 1), NORM_EPSILON)
    }
}

impl Stage {
    fn new(init: &Init<'_>, size: &StageSize, drop_path: f64) -> Self {
        let embed = init.child("patch_embed");
        let blocks = init.child("blocks");
        let dim = size.block.dim;
        Self {
            cls_token: (size.prefix > 0).then(|| init.token("cls_token", size.prefix, dim)),
            patch_embed: ConvEmbed {
                proj: embed.conv("proj", size.embed),
                norm: embed.layer_norm(dim, NORM_EPSILON),
            },
            blocks: drop_path_rates(drop_path, size.config.depth)
                .enumerate()
                .map(|(i, rate)| {
                    let init = blocks.child(&i.to_string());
                    let attn = ConvAttention::new(&init.child("attn"), size);
                    Block::new(&init, BLOCK, size.block, attn, rate)
                })
                .collect(),
            before: size.before,
        }
    }

    /// # Shapes
    ///
    /// `[batch, before * before, channels]` to `[batch, prefix + grid * grid, dim]`.
    fn forward(&self, x: Tensor<3>, phase: Phase) -> Tensor<3> {
        let [batch, ..] = x.dims();
        let map = to_map(x, [self.before, self.before]);
        let x = to_tokens(self.patch_embed.proj.forward(map));
        let x = layer_norm(&self.patch_embed.norm, x, NORM_EPSILON);
        let x = match &self.cls_token {
            Some(token) => Tensor::cat(vec![token.val().expand([batch as i64, -1, -1]), x], 1),
            None => x,
        };
        forward_blocks(&self.blocks, x, phase)
    }
}

impl Network for Cvt {
    type Config = CvtConfig;

    const FAMILY: &'static str = "CvT";
    const MARK: &'static str = "stage0.blocks.0.attn.proj_q.weight";
    const NO_WEIGHT_DECAY: &'static [&'static str] = &["cls_token"];
    const CLASSIFIERS: &'static [&'static str] = &["head"];

    fn new(config: CvtConfig, device: &Device, key: Key) -> Self {
        let init = Init::new(device, key);
        let (features, classes) = (config.num_features(), config.common.num_classes);
        let stages = config.stages();
        let last = stages.len().saturating_sub(1);
        let stages = stages.iter().enumerate().map(|(s, size)| {
            let drop_path = if s == last {
                config.common.drop_path
            } else {
                0.0
            };
            Stage::new(&init.child(&format!("stage{s}")), size, drop_path)
        });
        let head = init.child("head");
        // The original leaves this one bias as PyTorch makes it.
        let bias = head.uniform("bias", [classes], 1.0 / (features as f32).sqrt());
        Self {
            stages: stages.collect(),
            norm: init.layer_norm(features, NORM_EPSILON),
            head: Linear {
                weight: head.trunc_normal("weight", [features, classes]),
                bias: Some(bias),
            },
            config,
        }
    }

    fn config(&self) -> &CvtConfig {
        &self.config
    }

    fn forward_heads(&self, images: Tensor<4>, phase: Phase) -> Logits {
        let x = self.forward_features(images, phase);
        Logits::of_tokens(&x, &self.head, None)
    }

    /// timm has no CvT, so that there are no other names.
    fn is_official(_: &StateDict) -> bool {
        true
    }

    fn parameter_name(path: &str) -> String {
        match path.strip_prefix("stages.") {
            Some(rest) => format!("stage{rest}"),
            None => path.to_owned(),
        }
    }

    fn parameter_path(name: &str) -> String {
        match name.strip_prefix("stage") {
            Some(rest) => format!("stages.{rest}"),
            None => name.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
