//! The modules of a CvT, in the order of the paper.

use burn::module::{Module, Param};
use burn::nn::LayerNorm;
use burn::tensor::Tensor;
use kvt_ops::{Phase, layer_norm};

use super::CvtConfig;
use super::attention::ConvAttention;
use super::stage::StageSize;
use crate::backbone::{Ask, Backbone, Features};
use crate::family::FamilyConfig;
use crate::layers::{
    Activation, Block, BlockKind, Init, PatchEmbed, drop_path_rates, forward_blocks, to_map,
    to_tokens,
};

/// The original's epsilon of all layer norms.
const NORM_EPSILON: f64 = 1e-5;

const BLOCK: BlockKind = BlockKind {
    norm_epsilon: NORM_EPSILON,
    activation: Activation::QuickGelu,
    scale: None,
};

/// The backbone of a CvT.
#[derive(Module, Debug)]
pub struct Cvt {
    /// Named `stage0`, `stage1`, ... in weights.
    stages: Vec<Stage>,
    norm: LayerNorm,
}

/// Blocks at one resolution, after the embedding that leads to it.
#[derive(Module, Debug)]
struct Stage {
    cls_token: Option<Param<Tensor<3>>>,
    /// Its patches overlap.
    patch_embed: PatchEmbed,
    blocks: Vec<Block<ConvAttention>>,
}

impl Cvt {
    /// With the original's initialisation.
    pub(crate) fn new(config: &CvtConfig, init: &Init<'_>) -> Self {
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
        Self {
            stages: stages.collect(),
            norm: init.layer_norm(config.num_features(), NORM_EPSILON),
        }
    }
}

impl Backbone for Cvt {
    fn features(&self, images: Tensor<4>, ask: &Ask<'_>, phase: Phase) -> Features {
        let [batch, _, height, width] = images.dims();
        // An image is a map of tokens too, each of one pixel.
        let (mut x, mut grid) = (to_tokens(images), [height, width]);

        let phase = phase.named("stages");
        let (mut maps, mut blocks, mut prefix) = (Vec::new(), Vec::new(), 0);
        for (s, stage) in self.stages.iter().enumerate() {
            let map = ask.lower(to_map(x, prefix, grid));
            (x, grid) = stage.patch_embed.forward_overlapping(map);
            if s == 0 {
                x = ask.mixed(x, grid);
            }
            if let Some(token) = &stage.cls_token {
                let class = token.val().expand([batch as i64, -1, -1]);
                prefix = class.dims()[1];
                x = Tensor::cat(vec![class, x], 1);
            }
            let pass = ask.pass(s, grid, phase.child(s as u64)).behind(prefix, 0);
            let kept = ask.blocks_of(s, self.stages.len());
            (x, blocks) = forward_blocks(&stage.blocks, x, pass, kept);
            maps.extend(ask.maps.then(|| to_map(x.clone(), prefix, grid)));
        }
        let norm = |x| layer_norm(&self.norm, x, NORM_EPSILON);
        Features::normed(prefix, x.narrow(1, 0, prefix), blocks, maps, norm)
    }
}

impl Stage {
    fn new(init: &Init<'_>, size: &StageSize, drop_path: f64) -> Self {
        let embed = init.child("patch_embed");
        let (block, prefix) = (size.blocks.block, size.blocks.place.prefix);
        let rates = drop_path_rates(drop_path, size.blocks.depth);
        let blocks = init.child("blocks");
        Self {
            cls_token: (prefix > 0).then(|| init.token("cls_token", prefix, block.dim)),
            patch_embed: PatchEmbed::from_conv(embed.conv("proj", size.embed))
                .with_norm(&embed, NORM_EPSILON),
            blocks: Block::stack(&blocks, BLOCK, block, rates, |init, _| {
                ConvAttention::new(init, size)
            }),
        }
    }
}

#[cfg(test)]
mod tests;
