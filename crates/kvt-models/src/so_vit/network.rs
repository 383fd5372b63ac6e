//! The modules of a So-ViT, in the order of the paper. The classifier is [`crate::head`]'s.

use burn::module::{Module, Param};
use burn::nn::LayerNorm;
use burn::tensor::Tensor;
use kvt_attention::MultiHeadAttention;
use kvt_ops::{Phase, layer_norm};

use super::SoVitConfig;
use super::visual_tokens::VisualTokens;
use crate::backbone::{Ask, Backbone, Features};
use crate::layers::{Block, BlockKind, Init, drop_path_rates, forward_blocks, sinusoid, to_map};
use crate::weights::pos_embed::Bicubic;

/// PyTorch's epsilon of a layer norm, which the original keeps.
const NORM_EPSILON: f64 = 1e-5;

const BLOCK: BlockKind = BlockKind::vit(NORM_EPSILON);

/// The backbone of a So-ViT.
#[derive(Module, Debug)]
pub struct SoVit {
    cls_token: Param<Tensor<3>>,
    /// Fixed.
    pos_embed: Param<Tensor<3>>,
    visual_tokens: VisualTokens,
    blocks: Vec<Block<MultiHeadAttention>>,
    norm: LayerNorm,
    /// Tokens along a side of an image of the configured size.
    #[module(skip)]
    grid: usize,
}

impl SoVit {
    /// With the original's initialisation.
    pub(crate) fn new(config: &SoVitConfig, init: &Init<'_>) -> Self {
        let blocks = config.blocks();
        let (dim, tokens) = (config.embed_dim, blocks.place.queries);
        let rates = drop_path_rates(config.common.drop_path, config.depth);
        Self {
            cls_token: init.token("cls_token", 1, dim),
            pos_embed: init.fixed([1, tokens, dim], sinusoid(tokens, dim)),
            visual_tokens: VisualTokens::new(&init.child("visual_tokens"), config),
            blocks: blocks.build(&init.child("blocks"), BLOCK, rates),
            norm: init.layer_norm(dim, NORM_EPSILON),
            grid: config.grid_size(),
        }
    }

    /// The positions of a map of patches, and of the class token before it.
    fn positions(&self, grid: [usize; 2]) -> Tensor<3> {
        Bicubic::Antialiased.interpolated_behind(1, self.pos_embed.val(), [self.grid; 2], grid)
    }
}

impl Backbone for SoVit {
    fn features(&self, images: Tensor<4>, ask: &Ask<'_>, phase: Phase) -> Features {
        let batch = images.dims()[0] as i64;
        let (patches, grid) = self.visual_tokens.forward(ask.lower(images), phase);
        let class = self.cls_token.val().expand([batch, -1, -1]);
        let x = Tensor::cat(vec![class, ask.mixed(patches, grid)], 1) + self.positions(grid);

        let pass = ask.pass(0, grid, phase).behind(1, 0);
        let (x, blocks) = forward_blocks(&self.blocks, x, pass, ask.blocks);
        let map = ask.maps.then(|| to_map(x.clone(), 1, grid));
        let norm = |x| layer_norm(&self.norm, x, NORM_EPSILON);
        Features::normed(1, x, blocks, map.into_iter().collect(), norm)
    }
}

#[cfg(test)]
mod tests;
