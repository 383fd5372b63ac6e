//! What a vision transformer has beside its sizes: the options of timm's `vision_transformer.py` and `eva.py` that published
//! weights use.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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

    /// Which of [`VARIANTS`] these options make, where queries, keys and values have biases or have none.
    fn has(&self, qkv_bias: bool) -> [bool; 8] {
        let plain = matches!(self.scale, Some(ScaleKind::Plain(_)));
        [
            self.fc_norm,
            self.norm_pre,
            self.scale.is_some() && !plain,
            plain,
            self.reg_tokens > 0,
            self.qk_norm,
            self.unbiased_keys && qkv_bias,
            self.activation == Activation::SwiGlu,
        ]
    }

    /// What weights have that a model with these options has not.
    pub(super) fn foreign(&self, weights: &StateDict, qkv_bias: bool) -> Option<Variant> {
        let has = self.has(qkv_bias).into_iter();
        let lacking = VARIANTS.iter().zip(has).filter(|(_, has)| !has);
        let mut lacking = lacking.map(|(variant, _)| variant);
        lacking.find(|variant| variant.is_in(weights)).copied()
    }

    /// The pool that weights have, if a model with these options pools otherwise.
    pub(super) fn other_pool(&self, weights: &StateDict) -> Option<Variant> {
        (self.pool != Pool::Attention && ATTENTION_POOL.is_in(weights)).then_some(ATTENTION_POOL)
    }

    /// Whether a model with these options has an attention pool where weights have one, and none where they have none.
    pub(super) fn pools_like(&self, weights: &StateDict) -> bool {
        (self.pool == Pool::Attention) == ATTENTION_POOL.is_in(weights)
    }

    /// Whether weights have what a model with these options has, and nothing else but maybe another pool, as far as their names and
    /// numbers of tokens tell; `embedded` is the number of tokens before the map that have a position, where any token has one.
    pub(super) fn are_of(
        &self,
        weights: &StateDict,
        qkv_bias: bool,
        embedded: Option<usize>,
    ) -> bool {
        let mut variants = VARIANTS.iter().zip(self.has(qkv_bias));
        let tokens = |name| {
            weights
                .get(name)
                .and_then(|data| data.shape().get(1).copied())
        };
        let is_map = match (tokens("pos_embed"), embedded) {
            (Some(tokens), Some(prefix)) => {
                let patches = tokens.saturating_sub(prefix);
                patches.isqrt().pow(2) == patches
            }
            (found, expected) => found.is_none() && expected.is_none(),
        };
        variants.all(|(variant, has)| variant.is_in(weights) == has)
            && weights.get("cls_token").is_some() == self.class_token
            && tokens("reg_token").unwrap_or(0) == self.reg_tokens
            && is_map
    }
}

/// What weights have that a DeiT has not, in words.
pub(super) fn parts(weights: &StateDict) -> Vec<&'static str> {
    let variants = VARIANTS.iter().chain([&ATTENTION_POOL]);
    let found = variants.filter(|variant| variant.is_in(weights));
    let class_token = weights
        .get("cls_token")
        .is_none()
        .then_some("without a class token");
    found
        .map(|variant| variant.difference)
        .chain(class_token)
        .collect()
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
