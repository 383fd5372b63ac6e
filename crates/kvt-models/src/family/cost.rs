//! Parameters and operations of a configuration, computed without building the model: the numbers, and what a block costs. Each
//! family counts itself in `cost` of its `config.rs`, and `FamilyConfig::summary` adds all of it up.

use kvt_attention::{AttentionConfig, Cost, Macs, Place};

/// Size and cost of a model, for one image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// timm's name of the architecture; channels x depth replace a size timm has no name for.
    pub name: String,
    /// Trainable parameters.
    pub params: usize,
    /// Multiply-accumulate operations of the whole model.
    pub macs: Macs,
    /// The stages, first to last.
    pub stages: Vec<StageSummary>,
}

impl Summary {
    /// The sum of the stages and of the rest of the model.
    pub(crate) fn new(name: String, stages: Vec<StageSummary>, params: usize, macs: Macs) -> Self {
        Self {
            name,
            params: params + stages.iter().map(|stage| stage.params).sum::<usize>(),
            macs: macs + stages.iter().map(|stage| stage.macs).sum::<Macs>(),
            stages,
        }
    }

    /// The stages that a list of `neighbors` has entries for.
    pub fn attending(&self) -> impl Iterator<Item = &StageSummary> {
        self.stages.iter().filter(|stage| stage.takes_attention)
    }

    /// How many keys each query of these stages keeps, first to last: `65 of 65, 17 of 17`; once if it is the same in all of them.
    pub fn kept(&self) -> String {
        let stages = self.attending();
        let mut kept: Vec<String> = stages
            .map(|stage| format!("{} of {}", stage.k, stage.keys))
            .collect();
        if kept.windows(2).all(|pair| pair[0] == pair[1]) {
            kept.truncate(1);
        }
        kept.join(", ")
    }
}

/// Size and cost of one stage: blocks that share a resolution and an attention.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageSummary {
    /// The stage's name: among the parameters, unless its blocks are parts of modules that other stages share.
    pub name: String,
    /// Blocks.
    pub depth: usize,
    /// Tokens, that is queries.
    pub tokens: usize,
    /// Keys each query chooses from; 0 if queries choose no keys.
    pub keys: usize,
    /// Keys each query keeps.
    pub k: usize,
    /// Whether `attention` applies to these queries: not if they choose no keys, and not for a class token with its
    /// own attention (`class_attention`).
    pub takes_attention: bool,
    /// Trainable parameters of the blocks, and of the modules that lead to their resolution.
    pub params: usize,
    /// Multiply-accumulate operations of the same.
    pub macs: Macs,
    /// The mechanism of attention; `None` if the blocks have no selectable mechanism.
    pub attention: Option<StageAttention>,
}

/// The mechanism of attention in all blocks of a stage, without the projections around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageAttention {
    /// The kind, as in a configuration.
    pub kind: &'static str,
    /// Whether the parameters fit only one number of keys, and the model therefore only one image size.
    pub fixes_keys: bool,
    /// Trainable parameters.
    pub params: usize,
    /// Multiply-accumulate operations.
    pub macs: Macs,
}

impl StageAttention {
    /// The mechanisms of `blocks` blocks, each with `places` places of attention: the windows of a map, or the
    /// patches of an image.
    pub(crate) fn new(config: &AttentionConfig, cost: Cost, blocks: usize, places: usize) -> Self {
        Self {
            kind: config.kind(),
            fixes_keys: config.fixes_keys(),
            params: blocks * cost.params,
            macs: cost.macs * places * blocks,
        }
    }

    /// This and the mechanism of other blocks, under the kind of this one.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self {
            fixes_keys: self.fixes_keys,
            kind: self.kind,
            params: self.params + other.params,
            macs: self.macs + other.macs,
        }
    }
}

impl StageSummary {
    /// A stage of blocks with an attention at each of `places` places. A block without its attention has so many parameters and
    /// operations.
    pub(crate) fn new(
        name: impl Into<String>,
        depth: usize,
        (params, macs): (usize, Macs),
        attention: &AttentionConfig,
        place: &Place,
        places: usize,
    ) -> Self {
        let cost = attention.cost(place);
        Self {
            name: name.into(),
            depth,
            tokens: place.queries,
            keys: place.keys,
            k: cost.kept,
            takes_attention: true,
            params: depth * (params + cost.params),
            macs: (macs + cost.macs * places) * depth,
            attention: Some(StageAttention::new(attention, cost, depth, places)),
        }
    }

    /// A stage of blocks whose queries choose no keys.
    pub(crate) fn without_attention(
        name: String,
        depth: usize,
        (params, macs): (usize, Macs),
        tokens: usize,
    ) -> Self {
        Self {
            name,
            depth,
            tokens,
            keys: 0,
            k: 0,
            takes_attention: false,
            params: depth * params,
            macs: macs * depth,
            attention: None,
        }
    }

    /// The same with the modules that lead to the blocks.
    pub(crate) fn with_modules(self, params: usize, macs: Macs) -> Self {
        Self {
            params: self.params + params,
            macs: self.macs + macs,
            ..self
        }
    }
}

/// The sizes of a pre-norm transformer block without its mechanism of attention: the projections around the mechanism
/// and an MLP, each after a layer norm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockSize {
    /// Channels of a token.
    pub dim: usize,
    /// Hidden channels of the MLP.
    pub hidden: usize,
    /// Whether queries, keys and values have a bias.
    pub qkv_bias: bool,
}

impl BlockSize {
    /// Trainable parameters of one block, without those of its mechanism.
    pub(crate) fn params(self) -> usize {
        let qkv_bias = if self.qkv_bias { 3 * self.dim } else { 0 };
        let biases = qkv_bias + self.dim + self.hidden + self.dim;
        let norms = 4 * self.dim;
        self.weights() + biases + norms
    }

    /// Operations of one block for `tokens` tokens, without those of its mechanism.
    pub(crate) fn macs(self, tokens: usize) -> Macs {
        Macs::linear(tokens * self.weights())
    }

    fn weights(self) -> usize {
        4 * self.dim * self.dim + 2 * self.dim * self.hidden
    }
}
