//! Sizes of a vision transformer, and their cost.

use kvt_attention::{AttentionConfig, Macs};

use super::options::{Embedding, Pool, VitOptions};
use super::pool::PoolSize;
use super::sizes;
use crate::error::ModelError;
use crate::family::FamilyConfig;
use crate::family::common::CommonConfig;
use crate::family::cost::{BlockSize, StageSummary};
use crate::family::model_keys::ModelOverrides;
use crate::family::transformer::Transformer;
use crate::family::validate;
use crate::layers::Activation;
use crate::weights::pos_embed::{Bicubic, Form};

/// Sizes and settings of a vision transformer.
#[derive(Clone, Debug, PartialEq)]
pub struct VitConfig {
    /// What it shares with the other families.
    pub common: CommonConfig,
    /// Side of a patch in pixels; divides both sides of `img_size`.
    pub patch_size: usize,
    /// Channels of a token.
    pub embed_dim: usize,
    /// Blocks.
    pub depth: usize,
    /// Attention heads; divides `embed_dim`.
    pub num_heads: usize,
    /// Whether there are a distillation token and its head.
    pub distilled: bool,
    /// What a DeiT does not have.
    pub options: VitOptions,
    /// The attention of all blocks.
    pub attention: AttentionConfig,
}

/// A size of timm's `vit_*` models: name, channels, blocks, sides of a patch. Every head has 64 channels.
type Vit = (&'static str, usize, usize, &'static [usize]);
const VITS: [Vit; 4] = [
    ("tiny", 192, 12, &[16]),
    ("small", 384, 12, &[16, 32, 8]),
    ("base", 768, 12, &[16, 32, 8]),
    ("large", 1024, 24, &[16, 32]),
];

impl VitConfig {
    /// A DeiT without a distillation token, from channels, blocks and heads.
    pub(super) fn deit(
        img_size: usize,
        patch_size: usize,
        [embed_dim, depth, num_heads]: [usize; 3],
    ) -> Self {
        Self {
            common: CommonConfig::imagenet(img_size),
            patch_size,
            embed_dim,
            depth,
            num_heads,
            distilled: false,
            options: VitOptions::DEIT,
            attention: AttentionConfig::dense(),
        }
    }

    /// Rows and columns of patches.
    pub(super) fn grid(&self) -> [usize; 2] {
        let patches = |side: usize| side.checked_div(self.patch_size).unwrap_or(0);
        let size = self.common.img_size;
        [patches(size.height), patches(size.width)]
    }

    /// Patches of an image.
    pub(super) fn patches(&self) -> usize {
        self.grid().iter().product()
    }

    /// Tokens before the patches: the class token, the distillation token, and registers.
    pub fn num_prefix_tokens(&self) -> usize {
        usize::from(self.options.class_token)
            + usize::from(self.distilled)
            + self.options.reg_tokens
    }

    /// Whether it is a DeiT: all options are as in one.
    pub fn is_deit(&self) -> bool {
        self.options == VitOptions::DEIT
    }

    /// Tokens before the patches that have a learned position; `None` if none at all has one.
    pub(crate) fn embedded_prefix(&self) -> Option<usize> {
        match self.options.embedding {
            Embedding::All => Some(self.num_prefix_tokens()),
            Embedding::Patches => Some(0),
            Embedding::Rotary => None,
        }
    }

    /// The blocks.
    pub(super) fn blocks(&self) -> Transformer {
        let sizes = [self.embed_dim, self.depth, self.num_heads];
        let (prefix, grid) = (self.num_prefix_tokens(), self.grid());
        self.common
            .transformer(sizes, &self.attention, prefix, grid)
    }

    /// The sizes of the attention pool, where there is one.
    pub(super) fn pool(&self) -> Option<PoolSize> {
        let size = PoolSize {
            dim: self.embed_dim,
            heads: self.num_heads,
            hidden: self.blocks().block.hidden,
            // timm's pools never have a gate.
            activation: match self.options.activation {
                own @ (Activation::QuickGelu | Activation::GeluTanh) => own,
                _ => Activation::Gelu,
            },
            epsilon: self.options.epsilon,
        };
        (self.options.pool == Pool::Attention).then_some(size)
    }

    /// Size and cost of the blocks.
    fn stage(&self) -> StageSummary {
        let mut blocks = self.blocks();
        let (BlockSize { dim, hidden, .. }, place) = (blocks.block, blocks.place);
        // The MLP is counted here, with its activation.
        blocks.block.hidden = 0;
        let options = &self.options;
        let [weights, biases] = options.activation.first(dim, hidden);
        let weights = weights + options.activation.inner(hidden) * dim;
        let scales = if options.scale.is_some() { 2 * dim } else { 0 };
        let norms = if options.qk_norm {
            4 * place.head_dim
        } else {
            0
        };
        let of_block = weights + biases + scales + norms;
        // A block without biases of keys has been counted with them.
        let keys = if options.unbiased_keys && self.common.qkv_bias {
            dim
        } else {
            0
        };
        let macs = Macs::linear(place.queries * weights) * self.depth;
        let blocks = blocks.summary("blocks");
        blocks.with_modules(self.depth * (of_block - keys), macs)
    }
}

impl FamilyConfig for VitConfig {
    fn named() -> Vec<Self> {
        let sizes = [(192, 3), (384, 6), (768, 12)];
        let kinds = [(false, 224), (false, 384), (true, 224), (true, 384)];
        let configs = sizes.into_iter().flat_map(|(embed_dim, num_heads)| {
            kinds.map(|(distilled, img_size)| Self {
                distilled,
                ..Self::deit(img_size, 16, [embed_dim, 12, num_heads])
            })
        });
        configs.chain(sizes::named()).collect()
    }

    fn aliases() -> Vec<(String, Self)> {
        let alias = |&(size, embed_dim, depth, patches): &Vit| {
            let sides = [224, 384].into_iter();
            sides.flat_map(move |img_size| {
                patches.iter().map(move |&patch_size| {
                    let name = format!("vit_{size}_patch{patch_size}_{img_size}");
                    let sizes = [embed_dim, depth, embed_dim / 64];
                    (name, Self::deit(img_size, patch_size, sizes))
                })
            })
        };
        VITS.iter().flat_map(alias).collect()
    }

    fn with(mut self, overrides: &ModelOverrides) -> Result<Self, ModelError> {
        let own = [self.embed_dim, self.depth, self.num_heads];
        [self.embed_dim, self.depth, self.num_heads] = overrides.blocks(own)?;
        self.patch_size = overrides.patch_size.unwrap_or(self.patch_size);
        self.options.pool = overrides.pool.unwrap_or(self.options.pool);
        self.attention = overrides.attentions(&[self.attention], 1)?.swap_remove(0);
        Ok(self)
    }

    fn validate(&self) -> Result<(), ModelError> {
        validate::sizes(&[("patch_size", self.patch_size)])?;
        let size = self.common.img_size;
        for side in [size.height, size.width] {
            validate::whole_patches(side, self.patch_size)?;
            validate::tokens(side / self.patch_size)?;
        }
        if self.options.pool == Pool::Token && !self.options.class_token {
            return Err(ModelError::Pool("a class token"));
        }
        if self.options.pool != Pool::Token && self.distilled {
            let needs = "a model without a distillation token, whose head would not be read";
            return Err(ModelError::Pool(needs));
        }
        if self.options.embedding == Embedding::Rotary && self.num_heads > 0 {
            let channels = ("embed_dim", self.embed_dim);
            let reason = "rotary positions turn two planes of each head for every axis";
            let planes = 4 * self.num_heads;
            validate::multiple(
                channels,
                (planes, format!("4 x `num_heads` {}", self.num_heads)),
                reason,
            )?;
        }
        if self.options.activation == Activation::SwiGluPacked {
            let hidden = ("hidden channels", self.blocks().block.hidden);
            let reason = "`mlp_ratio` gives the channels of a gate and of what it opens";
            validate::multiple(hidden, (2, "2".to_owned()), reason)?;
        }
        self.blocks().validate(self.common.mlp_ratio)
    }

    fn input_sides(&self) -> [usize; 2] {
        [1, self.patch_size]
    }

    fn name(&self) -> String {
        let pool = self.options.pool;
        if self.options
            != (VitOptions {
                pool,
                ..VitOptions::DEIT
            })
        {
            return sizes::name(self);
        }
        let size = match (self.embed_dim, self.depth, self.num_heads) {
            (192, 12, 3) => "tiny".to_owned(),
            (384, 12, 6) => "small".to_owned(),
            (768, 12, 12) => "base".to_owned(),
            (dim, depth, _) => format!("{dim}x{depth}"),
        };
        let distilled = if self.distilled { "_distilled" } else { "" };
        let (patch, img) = (self.patch_size, self.common.img_size);
        format!("deit_{size}{distilled}_patch{patch}_{img}")
    }

    fn num_features(&self) -> usize {
        self.embed_dim
    }

    fn cost(&self) -> (Vec<StageSummary>, usize, Macs) {
        let (dim, options) = (self.embed_dim, &self.options);
        let patch_inputs = self.common.in_chans * self.patch_size.pow(2);
        let patches = self.patches();
        let bias = usize::from(!options.norm_pre);
        let patch_embed = (patch_inputs + bias) * dim;
        let positions = self.embedded_prefix().map_or(0, |prefix| prefix + patches);
        let embeddings = (self.num_prefix_tokens() + positions) * dim;
        let norm = usize::from(options.norm_pre) * 2 * dim;
        let (of_pool, macs_of_pool) = self
            .pool()
            .map_or_else(Default::default, |pool| (pool.params(), pool.macs(patches)));
        let params = patch_embed + embeddings + norm + of_pool;
        let macs = Macs::linear(patches * patch_inputs * dim) + macs_of_pool;
        (vec![self.stage()], params, macs)
    }

    fn is_distilled(&self) -> bool {
        self.distilled
    }

    fn positions(&self, name: &str) -> Option<(Bicubic, [usize; 2], Form)> {
        let form = Form::Tokens(self.embedded_prefix()?);
        (name == "pos_embed").then_some((Bicubic::Antialiased, self.grid(), form))
    }
}
