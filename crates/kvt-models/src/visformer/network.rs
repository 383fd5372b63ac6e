//! The modules of a Visformer, in the order of the paper.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use kvt_ops::Phase;

use super::VisformerConfig;
use super::block::VisformerBlock;
use super::stage::StageSize;
use crate::backbone::{Ask, Backbone, Features};
use crate::family::FamilyConfig;
use crate::layers::{
    BatchNorm, BatchNormSettings, ConvNorm, Init, PatchEmbed, drop_path_rates, forward_each,
    to_map, to_tokens,
};
use crate::weights::pos_embed::Bicubic;

/// The backbone of a Visformer.
#[derive(Module, Debug)]
pub struct Visformer {
    /// Of the image.
    stem: Option<ConvNorm>,
    /// Named `patch_embed1`, `pos_embed1`, `stage1`, ... in weights.
    stages: Vec<Stage>,
    norm: BatchNorm,
}

/// Blocks at one resolution, after the embedding that leads to it.
#[derive(Module, Debug)]
struct Stage {
    patch_embed: PatchEmbed,
    norm: BatchNorm,
    /// `[1, dim, rows, columns]`.
    pos_embed: Param<Tensor<4>>,
    blocks: Vec<VisformerBlock>,
}

impl Visformer {
    /// With the original's initialisation.
    pub(crate) fn new(config: &VisformerConfig, init: &Init<'_>) -> Self {
        let depth = config.depth.iter().sum();
        let mut rates = drop_path_rates(config.common.drop_path, depth);
        let stages = config.stages().into_iter().enumerate().map(|(i, size)| {
            Stage::new(&init.child(&format!("stage{}", i + 1)), &size, &mut rates)
        });
        Self {
            stages: stages.collect(),
            stem: config.stem().map(|settings| {
                let init = init.child("stem");
                ConvNorm::new(&init, init.conv_kaiming_fan_out("conv", settings))
            }),
            norm: init.batch_norm(config.num_features(), BatchNormSettings::default()),
        }
    }
}

impl Backbone for Visformer {
    fn features(&self, images: Tensor<4>, ask: &Ask<'_>, phase: Phase) -> Features {
        let mut map = match &self.stem {
            Some(stem) => stem.forward(ask.lower(images), phase),
            None => images,
        };
        let phases = phase.named("stages");
        let (mut maps, mut blocks) = (Vec::new(), Vec::new());
        for (s, stage) in self.stages.iter().enumerate() {
            let (mut x, grid) = stage.embed(ask.lower(map), phase);
            if s == 0 {
                x = ask.mixed(x, grid);
            }
            x = x + stage.positions(grid);
            let pass = ask.pass(s, grid, phases.child(s as u64).named("blocks"));
            let kept = ask.blocks_of(s, self.stages.len());
            (x, blocks) = forward_each(&stage.blocks, x, pass, kept, VisformerBlock::forward);
            map = to_map(x, 0, grid);
            maps.extend(ask.maps.then(|| map.clone()));
        }
        let tokens = self.norm.forward_tokens(to_tokens(map), phase);
        // Only the last tokens update the running statistics.
        let last = blocks.pop().map(|_| tokens.clone());
        let earlier = blocks
            .into_iter()
            .map(|x| self.norm.forward_tokens(x, Phase::Eval));
        Features {
            blocks: earlier.chain(last).collect(),
            tokens,
            prefix: 0,
            registers: 0,
            vector: None,
            maps,
        }
    }
}

impl Stage {
    fn new(init: &Init<'_>, size: &StageSize, rates: &mut impl Iterator<Item = f64>) -> Self {
        let proj = init
            .child("patch_embed")
            .conv_kaiming_fan_out("proj", size.embed);
        let blocks = rates.take(size.depth).enumerate().map(|(i, rate)| {
            let init = init.child("blocks").child(&i.to_string());
            VisformerBlock::new(&init, size, rate)
        });
        Self {
            patch_embed: PatchEmbed::from_conv(proj),
            norm: init.batch_norm(size.dim, BatchNormSettings::default()),
            pos_embed: init.trunc_normal("pos_embed", [1, size.dim, size.grid, size.grid]),
            blocks: blocks.collect(),
        }
    }

    /// The tokens of a map without positions, and the size of the map that they form. Remainders of the map at its
    /// right and bottom are ignored.
    ///
    /// # Shapes
    ///
    /// `[batch, channels, height, width]` to `[batch, rows * columns, dim]`.
    fn embed(&self, map: Tensor<4>, phase: Phase) -> (Tensor<3>, [usize; 2]) {
        let (tokens, grid) = self.patch_embed.forward(map);
        (self.norm.forward_tokens(tokens, phase), grid)
    }

    /// The position embeddings of a map, `[1, rows * columns, dim]`.
    fn positions(&self, grid: [usize; 2]) -> Tensor<3> {
        let [_, _, rows, columns] = self.pos_embed.dims();
        Bicubic::Antialiased.interpolated(to_tokens(self.pos_embed.val()), [rows, columns], grid)
    }
}

#[cfg(test)]
mod tests;
