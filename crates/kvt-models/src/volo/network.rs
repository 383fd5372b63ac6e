//! The modules of a VOLO, in the order of the paper.

use burn::module::{Module, Param};
use burn::nn::LayerNorm;
use burn::tensor::Tensor;
use kvt_attention::MultiHeadAttention;
use kvt_ops::{Phase, layer_norm};

use super::class::ClassAttention;
use super::config::VoloConfig;
use super::outlook::OutlookAttention;
use super::{NORM_EPSILON, POOLING};
use crate::backbone::{Ask, Backbone, Features};
use crate::family::FamilyConfig;
use crate::layers::{
    Block, BlockKind, ConvNorm, ConvSettings, Init, PatchEmbed, drop_path_rates, forward_blocks,
    forward_each, to_map,
};
use crate::weights::pos_embed::Bicubic;

const BLOCK: BlockKind = BlockKind::vit(NORM_EPSILON);

/// The backbone of a VOLO.
#[derive(Module, Debug)]
pub struct Volo {
    /// Named `patch_embed.conv` in weights.
    stem: Vec<ConvNorm>,
    patch_embed: PatchEmbed,
    /// Named `network.0` in weights.
    outlookers: Vec<Block<OutlookAttention>>,
    /// Named `network.1` in weights.
    downsample: PatchEmbed,
    /// `[1, rows, columns, dim]`.
    pos_embed: Param<Tensor<4>>,
    /// Named `network.2`, `network.3`, ... in weights.
    stages: Vec<Vec<Block<MultiHeadAttention>>>,
    cls_token: Param<Tensor<3>>,
    post_network: Vec<Block<ClassAttention>>,
    norm: LayerNorm,
}

impl Volo {
    /// With the original's initialisation.
    pub(crate) fn new(config: &VoloConfig, init: &Init<'_>) -> Self {
        let embed = init.child("patch_embed");
        let stem = embed.child("conv");
        // Their list, in which every convolution is followed by a norm and an activation.
        let convolution = |(place, settings): (usize, ConvSettings)| {
            ConvNorm::new(&stem, stem.conv(&place.to_string(), settings))
        };
        let network = init.child("network");
        // Outlookers count for the rates, but drop nothing.
        let mut rates = drop_path_rates(config.common.drop_path, config.depth.iter().sum());
        let mut stage_rates = |depth| rates.by_ref().take(depth).collect::<Vec<f64>>();
        let outlook = config.outlook();
        let none = stage_rates(outlook.depth).into_iter().map(|_| 0.0);
        let blocks = network.child("0");
        let outlookers = Block::stack(&blocks, BLOCK, outlook.block, none, |init, _| {
            OutlookAttention::new(init, &outlook)
        });
        let stages = config.stages().enumerate().map(|(s, size)| {
            let blocks = network.child(&(s + 2).to_string());
            let rates = stage_rates(size.depth);
            size.build(&blocks, BLOCK, rates)
        });
        let (class, post) = (config.class(), init.child("post_network"));
        let [dim, features] = [outlook.block.dim, config.num_features()];
        let [_, grid] = config.grids(config.common.side());
        Self {
            stem: config.stem().map(convolution).into(),
            patch_embed: PatchEmbed::new(&embed, config.stem_dim, dim, config.strides[1]),
            outlookers,
            downsample: PatchEmbed::new(&network.child("1"), dim, features, POOLING),
            pos_embed: init.trunc_normal("pos_embed", [1, grid, grid, features]),
            stages: stages.collect(),
            cls_token: init.token("cls_token", 1, features),
            // The original has no drop path here.
            post_network: Block::stack(
                &post,
                BLOCK,
                class.block,
                vec![0.0; class.depth],
                |init, _| ClassAttention::new(init, &class),
            ),
            norm: init.layer_norm(features, NORM_EPSILON),
        }
    }

    /// The position embeddings of a map, `[1, rows * columns, dim]`.
    fn positions(&self, grid: [usize; 2]) -> Tensor<3> {
        let embedding = self.pos_embed.val();
        let [_, rows, columns, dim] = embedding.dims();
        let embedding = embedding.reshape([1, rows * columns, dim]);
        Bicubic::Plain.interpolated(embedding, [rows, columns], grid)
    }
}

impl Backbone for Volo {
    fn features(&self, images: Tensor<4>, ask: &Ask<'_>, phase: Phase) -> Features {
        let stem = self.stem.iter();
        let map = stem.fold(ask.lower(images), |map, layer| layer.forward(map, phase));
        let (x, grid @ [rows, columns]) = self.patch_embed.forward(map);
        let x = ask.mixed(x, grid);
        let [batch, _, dim] = x.dims();
        let map = x.reshape([batch, rows, columns, dim]);

        let phase = phase.named("network");
        let pass = ask.pass(0, grid, phase.child(0));
        let (map, _) = forward_blocks(&self.outlookers, map, pass, 0);
        let map = map.permute([0, 3, 1, 2]);
        let mut maps = Vec::from_iter(ask.maps.then(|| map.clone()));
        let (x, grid) = self.downsample.forward(ask.lower(map));
        let mut x = x + self.positions(grid);
        for (s, blocks) in (1..).zip(&self.stages) {
            let pass = ask.pass(s, grid, phase.child(s as u64));
            (x, _) = forward_blocks(blocks, x, pass, 0);
            maps.extend(ask.maps.then(|| to_map(x.clone(), 0, grid)));
        }

        let class = self.cls_token.val().expand([batch as i64, -1, -1]);
        let number = 1 + self.stages.len();
        let phase = phase.named("post_network");
        let pass = ask.pass(number, grid, phase).behind(1, 0);
        let norm = |class| {
            let all = Tensor::cat(vec![class, x.clone()], 1);
            layer_norm(&self.norm, all, NORM_EPSILON)
        };
        let post = &self.post_network;
        let (class, blocks) = forward_each(post, class, pass, ask.blocks, |block, class, pass| {
            let all = Tensor::cat(vec![class.clone(), x.clone()], 1);
            block.forward_reading(all, class, pass)
        });
        Features::normed(1, class, blocks, maps, norm)
    }
}

#[cfg(test)]
mod tests;
