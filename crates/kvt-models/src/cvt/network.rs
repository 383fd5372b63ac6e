//! The modules of a CvT, in the order of the paper.

use burn::module::{Module, Param};
use burn::nn::LayerNorm;
use burn::tensor::Tensor;
use kvt_ops::{Phase, layer_norm};

use super::CvtConfig;
use super::attention::ConvAttention;
use super::stage::StageSize;
use crate::backbone::{Ask, Backbone, Features};
use crate::layers::{
    Activation, Block, BlockKind, Conv2d, Init, drop_path_rates, forward_blocks, to_map, to_tokens,
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
    patch_embed: ConvEmbed,
    blocks: Vec<Block<ConvAttention>>,
}

/// Overlapping patches as tokens.
#[derive(Module, Debug)]
struct ConvEmbed {
    proj: Conv2d,
    norm: LayerNorm,
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
            (x, grid) = stage.patch_embed.forward(map);
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
            if ask.maps {
                maps.push(to_map(x.clone(), prefix, grid));
            }
        }
        let norm = |x| layer_norm(&self.norm, x, NORM_EPSILON);
        Features::normed(prefix, x.narrow(1, 0, prefix), blocks, maps, norm)
    }
}

impl Stage {
    fn new(init: &Init<'_>, size: &StageSize, drop_path: f64) -> Self {
        let embed = init.child("patch_embed");
        let dim = size.block.dim;
        let rates = drop_path_rates(drop_path, size.config.depth);
        let blocks = init.child("blocks");
        Self {
            cls_token: (size.prefix > 0).then(|| init.token("cls_token", size.prefix, dim)),
            patch_embed: ConvEmbed {
                proj: embed.conv("proj", size.embed),
                norm: embed.layer_norm(dim, NORM_EPSILON),
            },
            blocks: Block::stack(&blocks, BLOCK, size.block, rates, |init, _| {
                ConvAttention::new(init, size)
            }),
        }
    }
}

impl ConvEmbed {
    /// The tokens of a map of any type in f32, and the size of the map they form.
    ///
    /// # Shapes
    ///
    /// `[batch, channels, height, width]` to `[batch, rows * columns, dim]`.
    fn forward(&self, map: Tensor<4>) -> (Tensor<3>, [usize; 2]) {
        let map = self.proj.forward(map);
        let [_, _, rows, columns] = map.dims();
        let x = layer_norm(&self.norm, to_tokens(map), NORM_EPSILON);
        (x, [rows, columns])
    }
}

#[cfg(test)]
mod tests;
