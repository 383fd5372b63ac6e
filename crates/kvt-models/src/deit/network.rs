//! The modules of a DeiT, in the order of the paper.

use burn::module::{Module, Param};
use burn::nn::LayerNorm;
use burn::tensor::Tensor;
use kvt_attention::MultiHeadAttention;
use kvt_ops::{Phase, layer_norm};

use super::DeitConfig;
use crate::backbone::{Ask, Backbone, Features, Positions};
use crate::error::ModelError;
use crate::family::validate;
use crate::layers::{Block, BlockKind, Init, PatchEmbed, drop_path_rates, forward_blocks, to_map};
use crate::weights::pos_embed::Bicubic;

/// timm's epsilon of a vision transformer's layer norms.
const NORM_EPSILON: f64 = 1e-6;

const BLOCK: BlockKind = BlockKind::vit(NORM_EPSILON);

/// The backbone of a DeiT.
#[derive(Module, Debug)]
pub struct Deit {
    cls_token: Param<Tensor<3>>,
    dist_token: Option<Param<Tensor<3>>>,
    pos_embed: Param<Tensor<3>>,
    patch_embed: PatchEmbed,
    blocks: Vec<Block<MultiHeadAttention>>,
    norm: LayerNorm,
    /// Patches along a side of an image of the configured size.
    #[module(skip)]
    grid: usize,
}

impl Deit {
    /// With the original's initialisation.
    pub(crate) fn new(config: &DeitConfig, init: &Init<'_>) -> Self {
        let dim = config.embed_dim;
        let (size, place) = (config.block(), config.place());
        let rates = drop_path_rates(config.common.drop_path, config.depth);
        let blocks = Block::stack(&init.child("blocks"), BLOCK, size, rates, |init, _| {
            MultiHeadAttention::new(init, &config.attention, place, size.qkv_bias)
        });
        Self {
            cls_token: init.token("cls_token", 1, dim),
            dist_token: config.distilled.then(|| init.token("dist_token", 1, dim)),
            pos_embed: init.token("pos_embed", config.tokens(), dim),
            patch_embed: PatchEmbed::new(
                &init.child("patch_embed"),
                config.common.in_chans,
                dim,
                config.patch_size,
            ),
            blocks,
            norm: init.layer_norm(dim, NORM_EPSILON),
            grid: config.grid_size(),
        }
    }

    fn num_prefix_tokens(&self) -> usize {
        1 + usize::from(self.dist_token.is_some())
    }

    /// The position embeddings for a map of patches.
    fn positions(&self, grid: [usize; 2], as_in: Positions) -> Tensor<3> {
        let (prefix, embedding) = (self.num_prefix_tokens(), self.pos_embed.val());
        let bicubic = match as_in {
            Positions::Family => Bicubic::Antialiased,
            Positions::Dino => Bicubic::Dino,
        };
        bicubic.interpolated_behind(prefix, embedding, [self.grid; 2], grid)
    }
}

impl Backbone for Deit {
    fn features(&self, images: Tensor<4>, ask: &Ask<'_>, phase: Phase) -> Features {
        let batch = images.dims()[0];
        let (patches, grid) = self.patch_embed.forward(ask.lower(images));
        let prefix = |token: &Param<Tensor<3>>| token.val().expand([batch as i64, -1, -1]);

        let mut tokens = vec![prefix(&self.cls_token)];
        tokens.extend(self.dist_token.as_ref().map(prefix));
        tokens.push(ask.mixed(patches, grid));
        let x = Tensor::cat(tokens, 1) + self.positions(grid, ask.positions);

        let (x, blocks) = forward_blocks(&self.blocks, x, ask.pass(0, grid, phase), ask.blocks);
        let prefix = self.num_prefix_tokens();
        let map = ask.maps.then(|| to_map(x.clone(), prefix, grid));
        let norm = |x| layer_norm(&self.norm, x, NORM_EPSILON);
        Features {
            tokens: norm(x),
            prefix,
            maps: map.into_iter().collect(),
            blocks: blocks.into_iter().map(norm).collect(),
        }
    }

    fn check_size(&self, size: [usize; 2]) -> Result<(), ModelError> {
        validate::multiples(super::FAMILY.name, size, self.patch_embed.patch_size())
    }
}

#[cfg(test)]
mod tests;
