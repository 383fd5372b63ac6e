//! The modules of a DeiT, in the order of the paper.

use burn::module::{Module, Param};
use burn::nn::{LayerNorm, Linear};
use burn::tensor::{Device, Tensor, TensorData};
use kvt_attention::MultiHeadAttention;
use kvt_ops::{Key, Phase, layer_norm};

use super::DeitConfig;
use crate::architecture::Network;
use crate::layers::{
    Activation, Block, BlockKind, Init, PatchEmbed, drop_path_rates, forward_blocks,
};
use crate::model::Logits;
use crate::weights::pos_embed;

/// timm's epsilon of a vision transformer's layer norms.
const NORM_EPSILON: f64 = 1e-6;

const BLOCK: BlockKind = BlockKind {
    norm_epsilon: NORM_EPSILON,
    activation: Activation::Gelu,
};

/// A DeiT.
#[derive(Module, Debug)]
pub struct Deit {
    cls_token: Param<Tensor<3>>,
    dist_token: Option<Param<Tensor<3>>>,
    pos_embed: Param<Tensor<3>>,
    patch_embed: PatchEmbed,
    blocks: Vec<Block<MultiHeadAttention>>,
    norm: LayerNorm,
    head: Linear,
    head_dist: Option<Linear>,
    #[module(skip)]
    config: DeitConfig,
}

impl Deit {
    /// The tokens after the last block and its norm.
    ///
    /// # Shapes
    ///
    /// `[batch, in_chans, img_size, img_size]` to `[batch, tokens, embed_dim]`.
    pub fn forward_features(&self, images: Tensor<4>, phase: Phase) -> Tensor<3> {
        let [batch, ..] = images.dims();
        let prefix = |token: &Param<Tensor<3>>| token.val().expand([batch as i64, -1, -1]);

        let mut tokens = vec![prefix(&self.cls_token)];
        tokens.extend(self.dist_token.as_ref().map(prefix));
        tokens.push(self.patch_embed.forward(images));
        let x = Tensor::cat(tokens, 1) + self.pos_embed.val();

        let x = forward_blocks(&self.blocks, x, phase);
        layer_norm(&self.norm, x, NORM_EPSILON)
    }
}

impl Network for Deit {
    type Config = DeitConfig;

    const FAMILY: &'static str = "DeiT";
    const MARK: &'static str = "blocks.0.attn.qkv.weight";
    const NO_WEIGHT_DECAY: &'static [&'static str] = &["cls_token", "dist_token", "pos_embed"];
    const CLASSIFIERS: &'static [&'static str] = &["head", "head_dist"];

    fn new(config: DeitConfig, device: &Device, key: Key) -> Self {
        let init = Init::new(device, key);
        let dim = config.embed_dim;
        let blocks = init.child("blocks");
        let blocks = drop_path_rates(config.common.drop_path, config.depth)
            .enumerate()
            .map(|(i, rate)| {
                let (init, size) = (blocks.child(&i.to_string()), config.block());
                let attn = MultiHeadAttention::new(
                    &init.child("attn"),
                    &config.attention,
                    config.place(),
                    size.qkv_bias,
                );
                Block::new(&init, BLOCK, size, attn, rate)
            })
            .collect();
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
            head: init.linear("head", dim, config.common.num_classes, true),
            head_dist: config
                .distilled
                .then(|| init.linear("head_dist", dim, config.common.num_classes, true)),
            config,
        }
    }

    fn config(&self) -> &DeitConfig {
        &self.config
    }

    fn forward_heads(&self, images: Tensor<4>, phase: Phase) -> Logits {
        let x = self.forward_features(images, phase);
        Logits::of_tokens(&x, &self.head, self.head_dist.as_ref())
    }

    fn resize(&self, name: &str, _shape: &[usize], weight: &TensorData) -> Option<TensorData> {
        let (grid, prefix) = (self.config.grid_size(), self.config.num_prefix_tokens());
        match name {
            "pos_embed" => pos_embed::resample(weight, grid, prefix),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
