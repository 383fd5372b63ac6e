//! What a vision transformer has beside its sizes: the options of timm's `vision_transformer.py` and `eva.py` that published
//! weights use.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::VitConfig;
use crate::family::Variant;
use crate::layers::{Activation, ScaleKind};
use crate::weights::StateDict;

/// timm's epsilon of a vision transformer's layer norms.
const EPSILON: f64 = 1e-6;

/// What a vision transformer has beside its sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VitOptions {
    /// Whether there is a class token before the map.
    pub class_token: bool,
    /// Registers between the class token and the map (Darcet et al. 2023,
    /// [*Vision Transformers Need Registers*](https://arxiv.org/abs/2309.16588)).
    pub reg_tokens: usize,
    /// How tokens know where they are.
    pub embedding: Embedding,
    /// Whether there is a norm before the blocks, and no bias in the patches before it, as in CLIP.
    pub norm_pre: bool,
    /// Of the MLPs.
    pub activation: Activation,
    /// Of the branches of a block.
    pub scale: Option<ScaleKind>,
    /// Whether queries and values have their own biases and keys none, as in `eva.py`, where `qkv_bias` is set.
    pub unbiased_keys: bool,
    /// Whether queries and keys have a norm.
    pub qk_norm: bool,
    /// What the classifier reads.
    pub pool: Pool,
    /// Whether the last norm comes after the pooling, instead of before.
    pub fc_norm: bool,
    /// Added to the variance in layer norms.
    pub epsilon: f64,
}

/// How the tokens of a vision transformer know where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Embedding {
    /// A learned vector for each token, also for those before the map.
    All,
    /// A learned vector for each patch.
    Patches,
    /// Queries and keys of the map are turned, as in DINOv3.
    Rotary,
}

/// What the classifier of a vision transformer reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pool {
    /// The class token.
    Token,
    /// The mean of the patches.
    Mean,
    /// An attention of a learned query over the patches, and an MLP, as in SigLIP.
    Attention,
}

impl VitOptions {
    /// A DeiT has none of them.
    pub const DEIT: Self = Self {
        class_token: true,
        reg_tokens: 0,
        embedding: Embedding::All,
        norm_pre: false,
        activation: Activation::Gelu,
        scale: None,
        unbiased_keys: false,
        qk_norm: false,
        pool: Pool::Token,
        fc_norm: false,
        epsilon: EPSILON,
    };
}

impl VitConfig {
    /// Which of [`VARIANTS`] this model is.
    fn has(&self) -> [bool; 8] {
        let options = &self.options;
        let plain = matches!(options.scale, Some(ScaleKind::Plain(_)));
        [
            options.fc_norm,
            options.norm_pre,
            options.scale.is_some() && !plain,
            plain,
            options.reg_tokens > 0,
            options.qk_norm,
            options.unbiased_keys && self.common.qkv_bias,
            options.activation == Activation::SwiGlu,
        ]
    }

    /// What weights have that this model has not, although vision transformers can have it: they are of another one.
    pub(crate) fn foreign(&self, weights: &StateDict) -> Option<Variant> {
        let lacking = VARIANTS.iter().zip(self.has()).filter(|(_, has)| !has);
        let mut lacking = lacking.map(|(variant, _)| variant);
        lacking.find(|variant| variant.is_in(weights)).copied()
    }

    /// What weights pool by, if this model reads their tokens in another way, which can be chosen. Only a head cares.
    pub(crate) fn other_pool(&self, weights: &StateDict) -> Option<Variant> {
        let pools_otherwise = self.options.pool != Pool::Attention;
        (pools_otherwise && ATTENTION_POOL.is_in(weights)).then_some(ATTENTION_POOL)
    }

    /// Whether this model has an attention pool where weights have one, and none where they have none.
    pub(crate) fn pools_like(&self, weights: &StateDict) -> bool {
        (self.options.pool == Pool::Attention) == ATTENTION_POOL.is_in(weights)
    }

    /// Whether weights are of a model that differs from this one only in sizes and in its pool, as far as their names and numbers of
    /// tokens tell.
    pub(crate) fn is_alike(&self, weights: &StateDict) -> bool {
        let mut variants = VARIANTS.iter().zip(self.has());
        let tokens = |name| {
            weights
                .get(name)
                .and_then(|data| data.shape().get(1).copied())
        };
        let is_map = match (tokens("pos_embed"), self.embedded_prefix()) {
            (Some(tokens), Some(prefix)) => {
                let patches = tokens.saturating_sub(prefix);
                patches.isqrt().pow(2) == patches
            }
            (found, expected) => found.is_none() && expected.is_none(),
        };
        variants.all(|(variant, has)| variant.is_in(weights) == has)
            && weights.get("cls_token").is_some() == self.options.class_token
            && tokens("reg_token").unwrap_or(0) == self.options.reg_tokens
            && is_map
    }

    /// What weights have that a DeiT has not, in words.
    pub(crate) fn parts(weights: &StateDict) -> Vec<&'static str> {
        let variants = VARIANTS.iter().chain([&ATTENTION_POOL]);
        let found = variants.filter(|variant| variant.is_in(weights));
        let lacks_class = weights.get("cls_token").is_none();
        found
            .map(|variant| variant.difference)
            .chain(lacks_class.then_some("without a class token"))
            .collect()
    }
}

/// What `model.pool` may leave out of weights.
const ATTENTION_POOL: Variant = Variant {
    signature: "attn_pool.latent",
    difference: "whose head reads an attention pool, as SigLIP has it",
};

/// What timm's other vision transformers have, of which each is an option: a model without it must not be given such weights.
const VARIANTS: [Variant; 8] = [
    Variant {
        signature: "fc_norm.weight",
        difference: "whose head reads the mean of the patches before the last norm (`fc_norm`)",
    },
    Variant {
        signature: "norm_pre.weight",
        difference: "with a norm before its blocks, as CLIP has it",
    },
    Variant {
        signature: "blocks.0.ls1.gamma",
        difference: "with layer scale, as DeiT III and DINOv2 have it",
    },
    Variant {
        signature: "blocks.0.gamma_1",
        difference: "with layer scale, as DINOv3 and BEiT have it",
    },
    Variant {
        signature: "reg_token",
        difference: "with register tokens",
    },
    Variant {
        signature: "blocks.0.attn.q_norm.weight",
        difference: "that normalises queries and keys",
    },
    Variant {
        signature: "blocks.0.attn.q_bias",
        difference: "whose keys have no bias, as BEiT and DINOv3 have it",
    },
    Variant {
        signature: "blocks.0.mlp.fc1_g.weight",
        difference: "with a gate in its MLPs, as DINOv3's larger ones have it",
    },
];
