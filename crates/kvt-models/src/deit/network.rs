//! The modules of a DeiT, in the order of the paper.

use burn::module::{Module, Param};
use burn::nn::{LayerNorm, Linear};
use burn::tensor::{Device, Tensor};
use kvt_attention::{Key, MultiHeadAttention, Phase, layer_norm, linear};

use super::DeitConfig;
use crate::error::ModelError;
use crate::layers::{Init, Mlp, PatchEmbed, drop_path, drop_path_rates, drops_paths};
use crate::model::Logits;

/// timm's epsilon of a vision transformer's layer norms.
const NORM_EPSILON: f64 = 1e-6;

/// A DeiT.
#[derive(Module, Debug)]
pub struct Deit {
    cls_token: Param<Tensor<3>>,
    dist_token: Option<Param<Tensor<3>>>,
    pos_embed: Param<Tensor<3>>,
    patch_embed: PatchEmbed,
    blocks: Vec<Block>,
    norm: LayerNorm,
    head: Linear,
    head_dist: Option<Linear>,
    #[module(skip)]
    config: DeitConfig,
}

/// A pre-norm transformer block.
#[derive(Module, Debug)]
struct Block {
    norm1: LayerNorm,
    attn: MultiHeadAttention,
    norm2: LayerNorm,
    mlp: Mlp,
    #[module(skip)]
    drop_path: f64,
}

impl Deit {
    /// A model with timm's initialisation. The same key gives the same weights on every device.
    ///
    /// # Errors
    ///
    /// The configuration describes no model, see [`DeitConfig::validate`].
    pub fn new(config: DeitConfig, device: &Device, key: Key) -> Result<Self, ModelError> {
        config.validate()?;
        let init = Init::new(device, key);
        let dim = config.embed_dim;
        let blocks = init.child("blocks");
        let blocks = drop_path_rates(config.drop_path, config.depth)
            .enumerate()
            .map(|(i, rate)| Block::new(&blocks.child(&i.to_string()), &config, rate))
            .collect();
        Ok(Self {
            cls_token: init.token("cls_token", 1, dim),
            dist_token: config.distilled.then(|| init.token("dist_token", 1, dim)),
            pos_embed: init.token("pos_embed", config.tokens(), dim),
            patch_embed: PatchEmbed::new(
                &init.child("patch_embed"),
                config.in_chans,
                dim,
                config.patch_size,
            ),
            blocks,
            norm: init.layer_norm(dim, NORM_EPSILON),
            head: init.linear("head", dim, config.num_classes, true),
            head_dist: config
                .distilled
                .then(|| init.linear("head_dist", dim, config.num_classes, true)),
            config,
        })
    }

    /// The configuration this model was made from.
    pub fn config(&self) -> &DeitConfig {
        &self.config
    }

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

        let phase = phase.named("blocks");
        let x = (0..)
            .zip(&self.blocks)
            .fold(x, |x, (i, block)| block.forward(x, phase.child(i)));
        layer_norm(&self.norm, x, NORM_EPSILON)
    }

    /// The logits of each head.
    ///
    /// # Shapes
    ///
    /// `[batch, in_chans, img_size, img_size]` to `[batch, num_classes]` per head.
    pub fn forward_heads(&self, images: Tensor<4>, phase: Phase) -> Logits {
        let x = self.forward_features(images, phase);
        let token = |i: usize| x.clone().narrow(1, i, 1).squeeze_dim::<2>(1);
        Logits {
            class: linear(&self.head, token(0)),
            distillation: self.head_dist.as_ref().map(|head| linear(head, token(1))),
        }
    }
}

impl Block {
    fn new(init: &Init<'_>, config: &DeitConfig, drop_path: f64) -> Self {
        let dim = config.embed_dim;
        let attn = init.child("attn");
        Self {
            norm1: init.layer_norm(dim, NORM_EPSILON),
            attn: MultiHeadAttention::new(
                attn.linear("qkv", dim, 3 * dim, config.qkv_bias),
                attn.linear("proj", dim, dim, true),
                config.num_heads,
                config.attention,
                config.attn_drop,
            ),
            norm2: init.layer_norm(dim, NORM_EPSILON),
            mlp: Mlp::new(&init.child("mlp"), dim, config.mlp_hidden()),
            drop_path,
        }
    }

    fn forward(&self, x: Tensor<3>, phase: Phase) -> Tensor<3> {
        let (rate, attn) = (self.drop_path, phase.named("attn"));
        let normed = layer_norm(&self.norm1, x.clone(), NORM_EPSILON);
        // What is not dropped is added while it is made.
        let x = if drops_paths(rate, phase) {
            x + drop_path(
                self.attn.forward(normed, attn),
                rate,
                phase.named("drop_path1"),
            )
        } else {
            self.attn.forward_add(normed, x, attn)
        };
        let normed = layer_norm(&self.norm2, x.clone(), NORM_EPSILON);
        if drops_paths(rate, phase) {
            x + drop_path(self.mlp.forward(normed), rate, phase.named("drop_path2"))
        } else {
            self.mlp.forward_add(normed, x)
        }
    }
}

#[cfg(test)]
mod tests;
