//! The modules of a PiT, in the order of the paper.

use burn::module::{Module, Param};
use burn::nn::{LayerNorm, Linear};
use burn::tensor::Tensor;
use kvt_attention::MultiHeadAttention;
use kvt_ops::{Phase, layer_norm, linear, widened};

use super::PitConfig;
use super::stage::StageSize;
use crate::backbone::{Ask, Backbone, Features};
use crate::family::FamilyConfig;
use crate::layers::{
    Block, BlockKind, Conv2d, Init, drop_path_rates, forward_blocks, to_map, to_tokens,
};
use crate::weights::pos_embed::Bicubic;

/// The original's epsilon of all layer norms.
const NORM_EPSILON: f64 = 1e-6;

const BLOCK: BlockKind = BlockKind::vit(NORM_EPSILON);

/// The backbone of a PiT.
#[derive(Module, Debug)]
pub struct Pit {
    /// `[1, embed_dim, grid, grid]`; the class tokens have no position.
    pos_embed: Param<Tensor<4>>,
    /// `[1, 1, embed_dim]`, or with the distillation token `[1, 2, embed_dim]`.
    cls_token: Param<Tensor<3>>,
    patch_embed: PatchEmbed,
    transformers: Vec<Stage>,
    norm: LayerNorm,
}

/// Patches that may overlap.
#[derive(Module, Debug)]
struct PatchEmbed {
    conv: Conv2d,
}

/// Blocks at one resolution, in all stages but the first after the pooling that leads to it.
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
}

impl Pit {
    /// With the original's initialisation.
    pub(crate) fn new(config: &PitConfig, init: &Init<'_>) -> Self {
        // The original initialises only the layer norms, the tokens and the positions.
        let init = init.with_uniform_linears();
        let transformers = init.child("transformers");
        let blocks = config.stages.depth.iter().sum();
        let mut rates = drop_path_rates(config.common.drop_path, blocks);
        let stages =
            config.stages().into_iter().enumerate().map(|(s, size)| {
                Stage::new(&transformers.child(&s.to_string()), &size, &mut rates)
            });
        let transformers = stages.collect();
        let (patch_embed, grid) = (config.patch_embed(), config.grid_size());
        let dim = patch_embed.out_channels;
        Self {
            pos_embed: init.trunc_normal("pos_embed", [1, dim, grid, grid]),
            cls_token: init.token("cls_token", config.num_prefix_tokens(), dim),
            patch_embed: PatchEmbed {
                conv: init.child("patch_embed").conv("conv", patch_embed),
            },
            transformers,
            norm: init.layer_norm(config.num_features(), NORM_EPSILON),
        }
    }

    /// The position embeddings for a map of patches, `[1, embed_dim, rows, columns]`.
    fn positions(&self, grid: [usize; 2]) -> Tensor<4> {
        let embedding = self.pos_embed.val();
        let [_, _, rows, columns] = embedding.dims();
        if grid == [rows, columns] {
            return embedding;
        }
        let tokens = Bicubic::Antialiased.interpolated(to_tokens(embedding), [rows, columns], grid);
        to_map(tokens, 0, grid)
    }
}

impl Backbone for Pit {
    fn features(&self, images: Tensor<4>, ask: &Ask<'_>, phase: Phase) -> Features {
        let mut map = widened(self.patch_embed.conv.forward(ask.lower(images)));
        let [batch, _, rows, columns] = map.dims();
        let mut grid = [rows, columns];
        if ask.mix.is_some() {
            map = to_map(ask.mixed(to_tokens(map), grid), 0, grid);
        }
        let map = map + self.positions(grid);
        let class = self.cls_token.val().expand([batch as i64, -1, -1]);
        let prefix = class.dims()[1];
        let mut x = Tensor::cat(vec![class, to_tokens(map)], 1);

        let phase = phase.named("transformers");
        let (mut maps, mut blocks) = (Vec::new(), Vec::new());
        for (s, stage) in self.transformers.iter().enumerate() {
            if let Some(pool) = &stage.pool {
                (x, grid) = pool.forward(ask.lower(x), prefix, grid);
            }
            let pass = ask.pass(s, grid, phase.child(s as u64)).behind(prefix, 0);
            let kept = ask.blocks_of(s, self.transformers.len());
            (x, blocks) = forward_blocks(&stage.blocks, x, pass, kept);
            maps.extend(ask.maps.then(|| to_map(x.clone(), prefix, grid)));
        }
        let norm = |x| layer_norm(&self.norm, x, NORM_EPSILON);
        Features::normed(prefix, x.narrow(1, 0, prefix), blocks, maps, norm)
    }
}

impl Stage {
    fn new(init: &Init<'_>, size: &StageSize, rates: &mut impl Iterator<Item = f64>) -> Self {
        let pool = init.child("pool");
        let rates = rates.take(size.blocks.depth);
        Self {
            pool: size.pool.map(|settings| Pool {
                conv: pool.conv("conv", settings),
                fc: pool.linear("fc", settings.in_channels, settings.out_channels, true),
            }),
            blocks: size.blocks.build(&init.child("blocks"), BLOCK, rates),
        }
    }
}

impl Pool {
    /// The tokens after pooling in f32, from tokens of any type, and the size of their map.
    ///
    /// # Shapes
    ///
    /// `[batch, prefix + rows * columns, in]` to `[batch, prefix + ceil(rows / 2) * ceil(columns / 2), out]`.
    fn forward(&self, x: Tensor<3>, prefix: usize, grid: [usize; 2]) -> (Tensor<3>, [usize; 2]) {
        let map = to_map(x.clone(), prefix, grid);
        let class = linear(&self.fc, x.narrow(1, 0, prefix));
        let pooled = self.conv.forward(map);
        let [_, _, rows, columns] = pooled.dims();
        let x = Tensor::cat(vec![class, to_tokens(pooled)], 1);
        (widened(x), [rows, columns])
    }
}

#[cfg(test)]
mod tests;
