//! The modules of a T2T-ViT, in the order of the paper.

use burn::module::{Module, Param};
use burn::nn::{LayerNorm, Linear};
use burn::tensor::Tensor;
use kvt_attention::MultiHeadAttention;
use kvt_ops::{Phase, Window, layer_norm, linear, unfold, widened};

use super::config::{T2tConfig, TokensType};
use super::performer::TokenPerformer;
use super::transformer::TokenTransformer;
use super::{NORM_EPSILON, config};
use crate::backbone::{Ask, Backbone, Features};
use crate::layers::{
    Block, BlockKind, Init, Pass, drop_path_rates, forward_blocks, sinusoid, to_map,
};
use crate::weights::pos_embed::Bicubic;

const BLOCK: BlockKind = BlockKind::vit(NORM_EPSILON);

/// The backbone of a T2T-ViT.
#[derive(Module, Debug)]
pub struct T2t {
    cls_token: Param<Tensor<3>>,
    /// `[1, 1 + grid * grid, embed_dim]`: fixed, but saved.
    pos_embed: Param<Tensor<3>>,
    tokens_to_token: TokensToToken,
    blocks: Vec<Block<MultiHeadAttention>>,
    norm: LayerNorm,
    /// Tokens along a side of an image of the configured size.
    #[module(skip)]
    grid: usize,
}

/// Images to tokens.
#[derive(Module, Debug)]
struct TokensToToken {
    attention1: TokenLayer,
    attention2: TokenLayer,
    project: Linear,
    /// The soft split before each of the three.
    #[module(skip)]
    splits: [Window; 3],
}

/// A layer between two soft splits.
#[derive(Module, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "two of them in a network, whose weights are elsewhere"
)]
enum TokenLayer {
    Transformer(TokenTransformer),
    Performer(TokenPerformer),
}

impl T2t {
    /// With the original's initialisation.
    pub(crate) fn new(config: &T2tConfig, init: &Init<'_>) -> Self {
        let blocks = config.blocks();
        let (dim, tokens) = (config.embed_dim, blocks.place.queries);
        let rates = drop_path_rates(config.common.drop_path, config.depth);
        Self {
            cls_token: init.token("cls_token", 1, dim),
            pos_embed: init.fixed([1, tokens, dim], sinusoid(tokens, dim)),
            tokens_to_token: TokensToToken::new(config, &init.child("tokens_to_token")),
            blocks: blocks.build(&init.child("blocks"), BLOCK, rates),
            norm: init.layer_norm(dim, NORM_EPSILON),
            grid: config.grid_size(),
        }
    }

    /// The positions of the class token and of a map of tokens.
    fn positions(&self, grid: [usize; 2]) -> Tensor<3> {
        Bicubic::Plain.interpolated_behind(1, self.pos_embed.val(), [self.grid; 2], grid)
    }
}

impl Backbone for T2t {
    fn features(&self, images: Tensor<4>, ask: &Ask<'_>, phase: Phase) -> Features {
        let batch = images.dims()[0];
        let (tokens, grid, mut maps) = self.tokens_to_token.forward(images, ask, phase);
        let class = self.cls_token.val().expand([batch as i64, -1, -1]);
        let x = Tensor::cat(vec![class, ask.mixed(tokens, grid)], 1) + self.positions(grid);

        let pass = ask.pass(config::LAYERS.len(), grid, phase).behind(1, 0);
        let (x, blocks) = forward_blocks(&self.blocks, x, pass, ask.blocks);
        maps.extend(ask.maps.then(|| to_map(x.clone(), 1, grid)));
        let norm = |x| layer_norm(&self.norm, x, NORM_EPSILON);
        Features::normed(1, x, blocks, maps, norm)
    }
}

impl TokensToToken {
    fn new(config: &T2tConfig, init: &Init<'_>) -> Self {
        let sizes = config.token_sizes();
        let layer = |i: usize| {
            let (init, size) = (init.child(config::LAYERS[i]), &sizes[i]);
            match &config.tokens_type {
                TokensType::Transformer { attention } => {
                    TokenLayer::Transformer(TokenTransformer::new(&init, size, &attention[i]))
                }
                TokensType::Performer { drop } => {
                    TokenLayer::Performer(TokenPerformer::new(&init, size, *drop))
                }
            }
        };
        Self {
            attention1: layer(0),
            attention2: layer(1),
            project: init.linear("project", sizes[2].input, sizes[2].dim, true),
            splits: sizes.map(|size| size.split),
        }
    }

    /// The tokens, the size of the map that they form, and if requested the maps after both layers.
    ///
    /// # Shapes
    ///
    /// `[batch, in_chans, height, width]` to `[batch, rows * columns, embed_dim]`.
    fn forward(
        &self,
        images: Tensor<4>,
        ask: &Ask<'_>,
        phase: Phase,
    ) -> (Tensor<3>, [usize; 2], Vec<Tensor<4>>) {
        let phase = phase.named("tokens_to_token");
        let (mut map, mut maps) = (images, Vec::new());
        let layers = [&self.attention1, &self.attention2].into_iter();
        for (i, (layer, split)) in layers.zip(self.splits).enumerate() {
            let (x, grid) = soft_split(map, split);
            let x = layer.forward(x, ask.pass(i, grid, phase.named(config::LAYERS[i])));
            map = to_map(x, 0, grid);
            maps.extend(ask.maps.then(|| map.clone()));
        }
        let (x, grid) = soft_split(map, self.splits[2]);
        let tokens = widened(linear(&self.project, ask.lower(x)));
        (tokens, grid, maps)
    }
}

impl TokenLayer {
    fn forward(&self, x: Tensor<3>, pass: Pass<'_>) -> Tensor<3> {
        match self {
            Self::Transformer(layer) => layer.forward(x, pass),
            Self::Performer(layer) => layer.forward(x, pass),
        }
    }
}

/// Overlapping patches of a map as tokens, and the size of the map that they form.
///
/// # Shapes
///
/// `[batch, channels, height, width]` to `[batch, rows * columns, channels * kernel * kernel]`.
fn soft_split(map: Tensor<4>, split: Window) -> (Tensor<3>, [usize; 2]) {
    let [_, _, height, width] = map.dims();
    let tokens = unfold(map, split).swap_dims(1, 2);
    (tokens, split.positions([height, width]))
}

#[cfg(test)]
mod tests;
