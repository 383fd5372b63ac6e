//! The modules of a Twins, in the order of the paper.

use burn::module::Module;
use burn::nn::LayerNorm;
use burn::tensor::Tensor;
use kvt_ops::{Phase, layer_norm, widened};

use super::attention::GroupedAttention;
use super::config::TwinsConfig;
use super::stage::StageSize;
use crate::backbone::{Ask, Backbone, Features};
use crate::family::FamilyConfig;
use crate::layers::{
    Block, BlockKind, Conv2d, ConvSettings, Init, Pass, PatchEmbed, drop_path_rates, forward_each,
    to_map, to_tokens,
};

/// Epsilon of the norms of the blocks, and of the last norm.
const NORM_EPSILON: f64 = 1e-6;
/// Epsilon of the norms after convolutions, which the original leaves at PyTorch's default.
pub(super) const EMBED_EPSILON: f64 = 1e-5;

const BLOCK: BlockKind = BlockKind::vit(NORM_EPSILON);

/// The backbone of a Twins-SVT. Lists have one entry per stage.
#[derive(Module, Debug)]
pub struct Twins {
    patch_embeds: Vec<PatchEmbed>,
    blocks: Vec<Vec<Block<GroupedAttention>>>,
    pos_block: Vec<PosConv>,
    norm: LayerNorm,
}

/// Gives tokens their positions: adds a convolution of the map, whose padding shows where the map ends.
#[derive(Module, Debug)]
struct PosConv {
    /// A sequence of one layer in the original.
    proj: [Conv2d; 1],
}

impl Twins {
    /// With the original's initialisation.
    pub(crate) fn new(config: &TwinsConfig, init: &Init<'_>) -> Self {
        let stages: Vec<StageSize> = config.stages().collect();
        let of_stage = |list: &str, stage: usize| init.child(list).child(&stage.to_string());
        let mut rates = drop_path_rates(config.common.drop_path, config.stages.depth.iter().sum());
        let blocks = stages
            .iter()
            .enumerate()
            .map(|(s, size)| {
                let (block, own) = (size.blocks.block, rates.by_ref().take(size.blocks.depth));
                Block::stack(&of_stage("blocks", s), BLOCK, block, own, |init, i| {
                    GroupedAttention::new(init, size, i)
                })
            })
            .collect();
        let patch_embeds = stages.iter().enumerate().map(|(s, size)| {
            let init = of_stage("patch_embeds", s);
            let proj = init.conv_fan_out_groups("proj", size.embed);
            PatchEmbed::from_conv(proj).with_norm(&init, EMBED_EPSILON)
        });
        let pos_block = stages
            .iter()
            .enumerate()
            .map(|(s, size)| PosConv::new(&of_stage("pos_block", s), size.position()));
        Self {
            patch_embeds: patch_embeds.collect(),
            blocks,
            pos_block: pos_block.collect(),
            norm: init.layer_norm(config.num_features(), NORM_EPSILON),
        }
    }
}

impl Backbone for Twins {
    fn features(&self, images: Tensor<4>, ask: &Ask<'_>, phase: Phase) -> Features {
        let [_, _, height, width] = images.dims();
        // An image is a map of tokens too, each of one pixel.
        let (mut x, mut grid) = (to_tokens(images), [height, width]);

        let phase = phase.named("stages");
        let (mut maps, mut blocks) = (Vec::new(), Vec::new());
        let stages = self.patch_embeds.iter().zip(&self.blocks);
        for (s, ((embed, stage), pos)) in stages.zip(&self.pos_block).enumerate() {
            (x, grid) = embed.forward_tokens(ask.lower(x), grid);
            if s == 0 {
                x = ask.mixed(x, grid);
            }
            let pass = ask.pass(s, grid, phase.child(s as u64).named("blocks"));
            let kept = ask.blocks_of(s, self.blocks.len());
            (x, blocks) = forward_each(stage, x, pass, kept, |block, x, pass| {
                let x = block.forward(x, pass);
                match pass.watch.block.block {
                    0 => pos.forward(x, pass),
                    _ => x,
                }
            });
            if let Some(end) = ask.stage_end {
                x = end(s, x);
            }
            maps.extend(ask.maps.then(|| to_map(x.clone(), 0, grid)));
        }
        let norm = |x| layer_norm(&self.norm, x, NORM_EPSILON);
        Features::normed(0, x, blocks, maps, norm)
    }
}

impl PosConv {
    fn new(init: &Init<'_>, settings: ConvSettings) -> Self {
        Self {
            proj: [init.child("proj").conv_fan_out_groups("0", settings)],
        }
    }

    /// # Shapes
    ///
    /// `[batch, rows * columns, dim]` to the same shape.
    fn forward(&self, x: Tensor<3>, pass: Pass<'_>) -> Tensor<3> {
        let [proj] = &self.proj;
        let map = to_map(pass.lower(x.clone()), 0, pass.grid);
        x + widened(to_tokens(proj.forward(map)))
    }
}

#[cfg(test)]
mod tests;
