//! The modules of a vision transformer, in the order of the paper.

use burn::module::{Module, Param};
use burn::nn::LayerNorm;
use burn::tensor::Tensor;
use kvt_attention::{MultiHeadAttention, Rotary};
use kvt_ops::{Phase, layer_norm};

use super::VitConfig;
use super::options::Pool;
use super::pool::AttentionPool;
use super::rotary::rotary;
use crate::backbone::{Ask, Backbone, Features, Positions, mean_behind};
use crate::family::transformer::Transformer;
use crate::layers::{
    Block, BlockKind, ConvSettings, Init, Pass, PatchEmbed, Recent, drop_path_rates,
    forward_blocks, to_map,
};
use crate::weights::pos_embed::Bicubic;

/// The backbone of a vision transformer.
#[derive(Module, Debug)]
pub struct Vit {
    cls_token: Option<Param<Tensor<3>>>,
    dist_token: Option<Param<Tensor<3>>>,
    reg_token: Option<Param<Tensor<3>>>,
    pos_embed: Option<Param<Tensor<3>>>,
    patch_embed: PatchEmbed,
    norm_pre: Option<LayerNorm>,
    blocks: Vec<Block<MultiHeadAttention>>,
    norm: Option<LayerNorm>,
    attn_pool: Option<AttentionPool>,
    fc_norm: Option<LayerNorm>,
    #[module(skip)]
    config: VitConfig,
    #[module(skip)]
    tables: Recent<[usize; 2], Rotary>,
}

impl Vit {
    /// With the original's initialisation.
    pub(crate) fn new(config: &VitConfig, init: &Init<'_>) -> Self {
        let (dim, options) = (config.embed_dim, config.options);
        let Transformer { block, place, .. } = config.blocks();
        let rates = drop_path_rates(config.common.drop_path, config.depth);
        let kind = BlockKind {
            norm_epsilon: options.epsilon,
            activation: options.activation,
            scale: options.scale,
        };
        let blocks = Block::stack(&init.child("blocks"), kind, block, rates, |init, _| {
            let own_biases = options.unbiased_keys && block.qkv_bias;
            let bias = block.qkv_bias && !own_biases;
            let mut attn = MultiHeadAttention::new(init, &config.attention, place, bias);
            if own_biases {
                attn = attn.with_unbiased_keys(init);
            }
            if options.qk_norm {
                attn = attn.with_norms(init, options.epsilon);
            }
            attn
        });
        let patches = ConvSettings {
            bias: !options.norm_pre,
            ..ConvSettings::patches(config.common.in_chans, dim, config.patch_size)
        };
        let token = |name, count: usize| (count > 0).then(|| init.token(name, count, dim));
        let norm = |is_there: bool| is_there.then(|| init.layer_norm(dim, options.epsilon));
        let embedded = config.embedded_prefix();
        let positions = embedded.map_or(0, |prefix| prefix + config.patches());
        Self {
            cls_token: token("cls_token", usize::from(options.class_token)),
            dist_token: token("dist_token", usize::from(config.distilled)),
            reg_token: token("reg_token", options.reg_tokens),
            pos_embed: token("pos_embed", positions),
            patch_embed: PatchEmbed::from_conv(init.child("patch_embed").conv("proj", patches)),
            norm_pre: norm(options.norm_pre),
            blocks,
            norm: norm(!options.fc_norm),
            attn_pool: config
                .pool()
                .map(|size| AttentionPool::new(&init.child("attn_pool"), size)),
            fc_norm: norm(options.fc_norm),
            config: config.clone(),
            tables: Recent::default(),
        }
    }

    /// The tokens before the map, for `batch` images.
    fn prefix(&self, batch: usize) -> Vec<Tensor<3>> {
        let tokens = [&self.cls_token, &self.dist_token, &self.reg_token];
        let there = tokens.into_iter().flatten();
        there
            .map(|token| token.val().expand([batch as i64, -1, -1]))
            .collect()
    }

    /// All tokens with their learned positions, where there are some.
    fn embedded(&self, patches: Tensor<3>, grid: [usize; 2], as_in: Positions) -> Tensor<3> {
        let prefix = self.prefix(patches.dims()[0]);
        let joined = |patches| Tensor::cat([prefix, vec![patches]].concat(), 1);
        let (Some(embedding), Some(with)) = (&self.pos_embed, self.config.embedded_prefix()) else {
            return joined(patches);
        };
        let bicubic = match as_in {
            Positions::Family => Bicubic::Antialiased,
            Positions::Dino => Bicubic::Dino,
        };
        let from = self.config.grid();
        let positions = bicubic.interpolated_behind(with, embedding.val(), from, grid);
        if with < self.config.num_prefix_tokens() {
            joined(patches + positions)
        } else {
            joined(patches) + positions
        }
    }

    /// What turns queries and keys.
    fn rotary(&self, x: &Tensor<3>, grid: [usize; 2]) -> Option<Rotary> {
        let (prefix, head_dim) = (
            self.config.num_prefix_tokens(),
            self.config.blocks().place.head_dim,
        );
        let is_rotary = self.config.options.embedding == super::Embedding::Rotary;
        let (device, tables) = (x.device(), &self.tables);
        is_rotary.then(|| tables.of(grid, &device, || rotary(prefix, grid, head_dim, &device)))
    }

    /// The vector of each image, `[batch, dim]`, where it is not the class token as it is.
    fn vector(&self, tokens: &Tensor<3>) -> Option<Tensor<2>> {
        let (options, prefix) = (self.config.options, self.config.num_prefix_tokens());
        let patches = || {
            let count = tokens.dims()[1] - prefix;
            tokens.clone().narrow(1, prefix, count)
        };
        let vector = match (options.pool, &self.attn_pool) {
            (Pool::Attention, Some(pool)) => Some(pool.forward(patches())),
            (Pool::Mean, _) => mean_behind(tokens, prefix),
            _ if options.fc_norm => Some(tokens.clone().narrow(1, 0, 1).squeeze_dim(1)),
            _ => None,
        }?;
        Some(match &self.fc_norm {
            Some(norm) => layer_norm(norm, vector, options.epsilon),
            None => vector,
        })
    }
}

impl Backbone for Vit {
    fn features(&self, images: Tensor<4>, ask: &Ask<'_>, phase: Phase) -> Features {
        let (options, prefix) = (self.config.options, self.config.num_prefix_tokens());
        let (patches, grid) = self.patch_embed.forward(ask.lower(images));
        let x = self.embedded(ask.mixed(patches, grid), grid, ask.positions);
        let normalised = |norm: &Option<LayerNorm>, x| match norm {
            Some(norm) => layer_norm(norm, x, options.epsilon),
            None => x,
        };
        let x = normalised(&self.norm_pre, x);

        let rotary = self.rotary(&x, grid);
        let pass = Pass {
            rotary: rotary.as_ref(),
            ..ask.pass(0, grid, phase).behind(prefix, options.reg_tokens)
        };
        let (x, blocks) = forward_blocks(&self.blocks, x, pass, ask.blocks);
        let map = ask.maps.then(|| to_map(x.clone(), prefix, grid));
        let tokens = normalised(&self.norm, x);
        Features {
            vector: self.vector(&tokens),
            tokens,
            prefix,
            registers: options.reg_tokens,
            maps: map.into_iter().collect(),
            blocks: blocks
                .into_iter()
                .map(|x| normalised(&self.norm, x))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests;
