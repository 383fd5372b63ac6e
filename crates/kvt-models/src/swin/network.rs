//! The modules of a Swin, in the order of the paper.

use burn::module::Module;
use burn::nn::{LayerNorm, Linear};
use burn::tensor::Tensor;
use burn::tensor::ops::PadMode;
use kvt_ops::{Phase, layer_norm, linear, permute_reshape, widened};

use super::attention::WindowAttention;
use super::config::{StageSize, SwinConfig};
use super::masks::MaskCache;
use crate::backbone::{Ask, Backbone, Features};
use crate::family::FamilyConfig;
use crate::layers::{Block, BlockKind, Init, PatchEmbed, drop_path_rates, forward_blocks};

/// The original's epsilon of all layer norms.
const NORM_EPSILON: f64 = 1e-5;

const BLOCK: BlockKind = BlockKind::vit(NORM_EPSILON);

/// The backbone of a Swin.
#[derive(Module, Debug)]
pub struct Swin {
    patch_embed: PatchEmbed,
    layers: Vec<Stage>,
    norm: LayerNorm,
}

/// Blocks at one resolution, in all stages but the first after a halving of the resolution.
#[derive(Module, Debug)]
struct Stage {
    downsample: Option<PatchMerging>,
    blocks: Vec<Block<WindowAttention>>,
}

/// Makes one token of twice the channels out of 2 x 2.
#[derive(Module, Debug)]
struct PatchMerging {
    norm: LayerNorm,
    reduction: Linear,
}

impl Swin {
    /// With the original's initialisation.
    pub(crate) fn new(config: &SwinConfig, init: &Init<'_>) -> Self {
        let layers = init.child("layers");
        let mut rates = drop_path_rates(config.common.drop_path, config.stages.depth.iter().sum());
        let stages = config
            .stages()
            .enumerate()
            .map(|(s, size)| Stage::new(&layers.child(&s.to_string()), &size, s == 0, &mut rates));
        let layers = stages.collect();
        Self {
            patch_embed: PatchEmbed::new(
                &init.child("patch_embed"),
                config.common.in_chans,
                config.embed_dim,
                config.patch_size,
            )
            .with_norm(&init.child("patch_embed"), NORM_EPSILON),
            layers,
            norm: init.layer_norm(config.num_features(), NORM_EPSILON),
        }
    }

    /// Images with zeros at their right and bottom, up to whole patches: those of a classifier are whole.
    ///
    /// # Shapes
    ///
    /// `[batch, in_chans, height, width]`.
    fn whole_patches(&self, images: Tensor<4>) -> Tensor<4> {
        let [_, _, height, width] = images.dims();
        let patch_size = self.patch_embed.patch_size();
        let [down, right] = [height, width].map(|side| side.next_multiple_of(patch_size) - side);
        if [down, right] == [0, 0] {
            return images;
        }
        images.pad([(0, down), (0, right)], PadMode::Constant(0.0))
    }
}

impl Backbone for Swin {
    fn features(&self, images: Tensor<4>, ask: &Ask<'_>, phase: Phase) -> Features {
        let images = ask.lower(self.whole_patches(images));
        let (x, grid @ [rows, columns]) = self.patch_embed.forward(images);
        let x = ask.mixed(x, grid);
        let [batch, _, dim] = x.dims();
        let mut map = x.reshape([batch, rows, columns, dim]);

        let phase = phase.named("layers");
        let (mut maps, mut blocks) = (Vec::new(), Vec::new());
        for (s, stage) in self.layers.iter().enumerate() {
            if let Some(downsample) = &stage.downsample {
                map = downsample.forward(map, ask);
            }
            let [_, rows, columns, _] = map.dims();
            let pass = ask.pass(s, [rows, columns], phase.child(s as u64));
            let kept = ask.blocks_of(s, self.layers.len());
            (map, blocks) = forward_blocks(&stage.blocks, map, pass, kept);
            maps.extend(ask.maps.then(|| map.clone().permute([0, 3, 1, 2])));
        }
        let norm = |map: Tensor<4>| {
            let map = layer_norm(&self.norm, map, NORM_EPSILON);
            let [batch, rows, columns, dim] = map.dims();
            map.reshape([batch, rows * columns, dim])
        };
        Features::normed(0, map, blocks, maps, norm)
    }
}

impl Stage {
    fn new(
        init: &Init<'_>,
        size: &StageSize,
        first: bool,
        rates: &mut impl Iterator<Item = f64>,
    ) -> Self {
        let (blocks, block) = (init.child("blocks"), size.blocks.block);
        let rates = rates.take(size.blocks.depth);
        let windows = [size.windows, size.windows.shifted()];
        let masks = MaskCache::default();
        Self {
            downsample: (!first).then(|| PatchMerging::new(&init.child("downsample"), block.dim)),
            blocks: Block::stack(&blocks, BLOCK, block, rates, |init, i| {
                WindowAttention::new(init, size, windows[i % 2], masks.clone())
            }),
        }
    }
}

impl PatchMerging {
    /// Four tokens of `dim / 2` channels become one of `dim`.
    fn new(init: &Init<'_>, dim: usize) -> Self {
        Self {
            norm: init.layer_norm(2 * dim, NORM_EPSILON),
            reduction: init.linear("reduction", 2 * dim, dim, false),
        }
    }

    /// # Shapes
    ///
    /// `[batch, rows, columns, dim / 2]` to `[batch, ceil(rows / 2), ceil(columns / 2), dim]`.
    fn forward(&self, map: Tensor<4>, ask: &Ask<'_>) -> Tensor<4> {
        let merged = layer_norm(&self.norm, merge(map), NORM_EPSILON);
        widened(linear(&self.reduction, ask.lower(merged)))
    }
}

/// The channels of 2 x 2 tokens one after another: top left, bottom left, top right, bottom right.
/// An odd number of rows or columns is padded with zeros.
///
/// # Shapes
///
/// `[batch, rows, columns, dim]` to `[batch, ceil(rows / 2), ceil(columns / 2), 4 * dim]`.
fn merge(map: Tensor<4>) -> Tensor<4> {
    let [batch, height, width, dim] = map.dims();
    let [rows, columns] = [height, width].map(|size| size.div_ceil(2));
    let (below, right) = (2 * rows - height, 2 * columns - width);
    let map = match below + right {
        0 => map,
        _ => map.pad([(0, below), (0, right), (0, 0)], PadMode::Constant(0.0)),
    };
    let map = map.reshape([batch, rows, 2, columns, 2, dim]);
    permute_reshape(map, [0, 1, 3, 4, 2, 5], [batch, rows, columns, 4 * dim])
}

#[cfg(test)]
mod tests;
